package main

// costs is the processor time of Redis in microseconds, as bench/sizing measures it.
type costs struct {
	run      float64 // of a script run, beside its decisions
	decision float64
	lease    float64 // of a decision that leases, as a multiple of one that does not
}

// measured are the costs by algorithm, as `go -C bench run ./sizing -only core` prints them.
var measured = map[string]costs{
	slidingWindow: {run: 20, decision: 6.8, lease: mostForLease},
	fixedWindow:   {run: 22, decision: 6.7, lease: mostForLease},
	tokenBucket:   {run: 23, decision: 11.3, lease: mostForLease},
	slidingLog:    {run: 33, decision: 15.4, lease: mostForLease},
}

// mostForLease is the upper bound of what a lease costs Redis more than a plain decision.
const mostForLease = 1.5

// redisCore is the one core on which Redis runs scripts, one after another.
type redisCore struct {
	costs
	free    float64 // when the last run so far ends
	counted int64   // from when on the following count
	runs    int64
	asked   int64 // decisions, and refunds of leases
	busy    float64
}

// operation is what a node asks Redis to do.
type operation struct {
	leases bool
	run    func(now int64) // in the script
	done   func()          // at the node, once the reply is there; nil: nothing
}

// enqueue takes a batch that arrives now. It returns when its script runs, and when the reply leaves.
func (c *redisCore) enqueue(now int64, batch []operation) (starts, ends int64) {
	took := c.run
	for _, o := range batch {
		if o.leases {
			took += c.decision * c.lease
		} else {
			took += c.decision
		}
	}
	start := max(c.free, float64(now))
	c.free = start + took
	if now >= c.counted {
		c.busy += took
		c.runs++
		c.asked += int64(len(batch))
	}
	return int64(start), int64(c.free)
}
