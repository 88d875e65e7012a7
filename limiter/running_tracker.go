package limiter

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/minheap"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// runningTracker knows the requests that this process runs by one Redis, and keeps Redis informed.
type runningTracker struct {
	node   int64 // names this process in Redis
	epochs atomic.Int64
	send   func(statement)  // hands a message over without waiting for the answer
	failed func() bool      // reports whether all of Redis fails
	now    func() time.Time // with a monotonic reading

	seed     maphash.Seed
	shards   [runningShards]runningShard
	records  atomic.Int64
	policies sync.Map    // the first policy of each ID, so that states of one ID have one shape
	ticking  atomic.Bool // the timer is set
	next     int         // the shard that the next tick begins with; only the tick uses it
	ended    func() bool // reports whether the store has ended
}

// runningShards is how many locks the records are spread over.
const runningShards = 64

type runningShard struct {
	mu      sync.Mutex
	records map[quotaName]*runningRecord
	due     minheap.Heap[*runningRecord] // by when their next state is due
}

const (
	// stateSpan is how often records are looked at that have a state to send.
	stateSpan = 50 * time.Millisecond

	// statesPerSpan is how many states leave at once: a batch. As many follow after busySpan, so that
	// requests get their turn between them.
	statesPerSpan = maxBatch
	busySpan      = 4 * time.Millisecond

	// failedSpan is how long a state waits whose Redis fails.
	failedSpan = 250 * time.Millisecond

	// statesPerTimeout is how many states leave in a node timeout.
	statesPerTimeout = 3
)

// maxNodeID is the number of node IDs: a double holds each.
const maxNodeID = kernel.Precision

func newRunningTracker() *runningTracker {
	t := &runningTracker{node: 1 + rand.Int64N(maxNodeID-1), now: time.Now, seed: maphash.MakeSeed()}
	for i := range t.shards {
		s := &t.shards[i]
		s.records = map[quotaName]*runningRecord{}
		s.due.Less = func(a, b **runningRecord) bool { return (*a).due.Before((*b).due) }
		s.due.Moved = func(r **runningRecord, place int) { (*r).place = place }
	}
	return t
}

func (t *runningTracker) shardOf(key string) *runningShard {
	return &t.shards[maphash.String(t.seed, key)%runningShards]
}

// find returns the record of a key, and makes it where there is none. The shard's lock is held.
func (t *runningTracker) find(p *Policy, key string, now time.Time) *runningRecord {
	s, name := t.shardOf(key), quotaName{p.Rule().ID, key}
	r := s.records[name]
	if r == nil {
		r = &runningRecord{policy: t.policyOf(p), key: key, epoch: t.epochs.Add(1), place: -1}
		s.records[name] = r
		t.records.Add(1)
		r.due = now.Add(r.statePeriod())
		s.due.Push(r)
		t.start(stateSpan)
	}
	return r
}

// policyOf returns one policy for all that count in the same states.
func (t *runningTracker) policyOf(p *Policy) *Policy {
	if kept, found := t.policies.Load(p.Rule().ID); found {
		return kept.(*Policy) //nolint:forcetypeassert,errcheck // the map holds nothing else
	}
	kept, _ := t.policies.LoadOrStore(p.Rule().ID, p)
	return kept.(*Policy) //nolint:forcetypeassert,errcheck // as above
}

// drop removes a record that ended or holds nothing. The shard's lock is held.
func (t *runningTracker) drop(r *runningRecord) {
	s, name := t.shardOf(r.key), quotaName{r.policy.Rule().ID, r.key}
	if s.records[name] == r {
		delete(s.records, name)
		s.due.Remove(r.place)
		r.place = -1
		t.records.Add(-1)
		r.ended = true
	}
}

// statePeriod returns the time between two states of a record.
func (r *runningRecord) statePeriod() time.Duration {
	return r.policy.Settings().NodeTimeout / statesPerTimeout
}

// markDirty has a state sent soon. The shard's lock is held.
func (t *runningTracker) markDirty(r *runningRecord, now time.Time) {
	r.dirty = true
	if now.Before(r.due) {
		t.schedule(r, now)
	}
}

// schedule has a record looked at from an instant on. The shard's lock is held.
func (t *runningTracker) schedule(r *runningRecord, at time.Time) {
	r.due = at
	if r.place >= 0 {
		t.shardOf(r.key).due.Fix(r.place)
	}
}

// start sets the timer, unless it is set.
func (t *runningTracker) start(after time.Duration) {
	if !t.ticking.Swap(true) {
		time.AfterFunc(after, t.tick)
	}
}

// tick sends the states that are due, at most so many at once, and sets the timer again while there are
// records.
func (t *runningTracker) tick() {
	if t.ended() {
		return
	}
	left, failed := 1, t.failed()
	if !failed {
		left = t.sendDue(statesPerSpan)
	}
	t.ticking.Store(false)
	switch {
	case failed:
		t.start(failedSpan)
	case left == 0:
		t.start(busySpan)
	case t.records.Load() > 0:
		t.start(stateSpan)
	}
}

// statement is a message that is to be sent.
type statement struct {
	op    operation
	run   run
	stamp kernel.Receipt
}

// sendDue sends at most so many states and returns how many more it could have sent. No lock is held
// while a message is handed over.
func (t *runningTracker) sendDue(most int) (left int) {
	now, due := t.now(), make([]statement, 0, 16)
	for range runningShards {
		due = t.shards[t.next%runningShards].collect(t, now, most-len(due), due)
		if len(due) >= most {
			break // the next tick goes on with this shard
		}
		t.next++
	}
	for _, s := range due {
		t.send(s)
	}
	return most - len(due)
}

// collect appends at most so many states of the shard that are due.
func (s *runningShard) collect(t *runningTracker, now time.Time, most int, due []statement) []statement {
	s.mu.Lock()
	defer s.mu.Unlock()
	for most > 0 && s.due.Len() > 0 && !now.Before((*s.due.First()).due) {
		r := *s.due.First()
		switch {
		case r.isIdle(now):
			t.drop(r)
		case t.refresh(r, now):
			m, stamp := r.beginState()
			due = append(due, statement{opState, m, stamp})
			most--
			t.schedule(r, now.Add(r.statePeriod()))
		case r.dirty:
			t.schedule(r, now.Add(stateSpan)) // after the state in flight
		default:
			t.schedule(r, now.Add(r.statePeriod()))
		}
	}
	return due
}

// begin stamps the checks that take units of running requests.
func (t *runningTracker) begin(checks []Check) {
	now := t.now()
	for i := range checks {
		c := &checks[i]
		if !c.Policy.CountsRunning() || c.Peek {
			continue
		}
		s := t.shardOf(c.Key.String())
		s.mu.Lock()
		m, stamp := t.find(c.Policy, c.Key.String(), now).beginTake(unitsOf(c))
		s.mu.Unlock()
		keptOf(c).Held, keptOf(c).Receipt = &m, stamp
	}
}

// end ends a take, and releases its units where a base has them.
func (t *runningTracker) end(m run, outcome runningOutcome) {
	now, s := t.now(), t.shardOf(m.record.key)
	s.mu.Lock()
	var next *statement
	if t.endTake(m, outcome, now) {
		m, stamp := m.record.beginRelease(m.units, now)
		next = &statement{opRelease, m, stamp}
	}
	t.tidy(m.record, now)
	s.mu.Unlock()
	if next != nil {
		t.send(*next)
	}
}

// tidy drops a record that ended or holds nothing. The shard's lock is held.
func (t *runningTracker) tidy(r *runningRecord, now time.Time) {
	if r.ended || r.isIdle(now) {
		t.drop(r)
	}
}

// release tells Redis that units do not run any more.
func (t *runningTracker) release(m run) {
	now, r, s := t.now(), m.record, t.shardOf(m.record.key)
	s.mu.Lock()
	r.running -= m.units
	m, stamp := r.beginRelease(m.units, now)
	t.tidy(r, now)
	s.mu.Unlock()
	t.send(statement{opRelease, m, stamp})
}

// isFull reports whether this process alone runs as much as the check's policy allows.
func (t *runningTracker) isFull(c *Check) bool {
	if !c.Policy.CountsRunning() || c.Peek || neverPasses(c) {
		return false
	}
	s := t.shardOf(c.Key.String())
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[quotaNameOf(c)]
	return r != nil && r.running >= c.Policy.Rule().Params.Limit
}

// finish ends a release or a state. What follows one that failed waits: nothing else paces it.
func (t *runningTracker) finish(m run, outcome runningOutcome) {
	now, s := t.now(), t.shardOf(m.record.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.endMessage(m, outcome, now)
	if (outcome == ranNever || outcome == ranUnknown) && m.record.dirty {
		t.schedule(m.record, now.Add(failedSpan))
	}
	t.tidy(m.record, now)
}
