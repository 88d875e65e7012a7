package redis

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file probes nodes that fail. It makes a Redis ready that was away, before requests use it: it may have been
// restarted, and not know the scripts. For example at a round trip of 40 ms, with a timeout of 100 ms, in which a request
// could not connect, ask by the hash of a script, and send the script:
//
//	0 ms    A knock connects and sends PING. It is the first that is not refused; there is one every 50 ms.
//	80 ms   It is answered. All other connections are made, and bring the scripts.
//	160 ms  The probe repeats what failed.
//	200 ms  It is decided. The breaker closes, and requests meet open connections and known scripts.

const (
	// knockInterval is how long after an attempt to reach a Redis that is away the next one begins.
	knockInterval = 50 * time.Millisecond

	// scriptsKept is for how long before an outage a script was in use that a Redis is given after it.
	scriptsKept = time.Minute
)

// isAway reports whether an error says that a Redis cannot be reached, or that it is starting.
func isAway(err error) bool {
	switch limiter.Kind(dial.Undecided(err)) {
	case "refused", "connection", "timeout", "loading":
		return err != nil
	}
	return false
}

// recover probes a node that fails, and again after an interval unless it decides or is
// retired. The probe repeats what opened the breaker: where a user has lost one permission of
// several, any other operation would close it for a moment.
func (r *Store) recover(n *Node) {
	a := *n.Cause.Load()
	if n.renewal != nil && dial.IsRefusal(a.Err) {
		n.renewal.startBy(0) // the address may lead to a server that decides
	}
	next := probeInterval
	if slot, found := r.Topology.slotAt(n, a.Slot); found {
		a.Slot = slot
		if next = r.reach(n, &a); a.Err == nil || limiter.FailedAlone(a.Err) {
			r.resume(n)
			return
		}
	}
	if n.Breaker.isUnproven() {
		n.Breaker.Failure(a.Err)
	} else if !n.Breaker.Open() {
		return // new connections have ended the outage meanwhile
	}
	if n.life.Err() != nil {
		return
	}
	n.Cause.Store(&a)
	if _, wait := n.Breaker.untilProbe(); wait == 0 || next == probeInterval {
		n.Breaker.postpone()
		n.Failed()
	}
	n.Probes.Start(next)
}

// renew replaces the connections of a node if new ones lead to a Redis that decides. While the breaker is open the
// new ones have to decide what opened it, which ends the outage.
func (r *Store) renew(n *Node) {
	attempt := attemptNow()
	if cause := n.Cause.Load(); cause != nil && n.Breaker.Open() {
		attempt = cause
	}
	renewed, err := n.renewal.client.Renew(n.life, func(fresh *goredis.Client) error {
		on := r.Topology.newNode(fresh)
		defer on.retire(nil)
		if err := r.probe(n.life, on, attempt); err != nil {
			return err
		}
		_ = dial.Prepare(n.life, fresh, r.patience(), 1, r.introductions(n.life, attempt)) // it has just decided
		return nil
	})
	if renewed && n.Breaker.Open() {
		r.resume(n)
	}
	if err != nil && refusedLogin(err) && r.Topology.refused != nil {
		r.Topology.refused(dial.Undecided(err))
	}
	n.renewal.startLater()
}

// probe repeats an attempt on a node, on the reserved key. A take is followed by two more, of which one is in the
// window of the take before it and keeps the key's TTL, and by one that is denied, which a log answers by other
// commands. Before a refund it takes two units, and refunds the first of them, so that a log has an entry to move.
func (r *Store) probe(ctx context.Context, n *Node, a *attempt) error {
	checks := r.probeChecks(a)
	if a.Op != OpChange {
		denied := slices.Clone(checks)
		for i := range denied {
			denied[i].Weight = denied[i].Policy.Capacity()
		}
		return r.tryTakes(ctx, n, a.Slot, checks, checks, checks, denied)
	}
	for _, op := range []Operation{OpTake | WithReceipt, OpTake} {
		if err := r.try(ctx, n, op, a.Slot, checks); err != nil {
			return err
		}
	}
	return r.tryCall(ctx, n, NewChange(checks, slices.Repeat([]limiter.Change{{Units: -1}}, len(checks))...), a.Slot, checks)
}

// tryTakes runs takes on a node, one after the other in one batch.
func (r *Store) tryTakes(ctx context.Context, n *Node, slot uint16, takes ...[]limiter.Check) (err error) {
	until := clock.Now().Add(r.Timeout)
	waits := make([]func() error, len(takes))
	for i, checks := range takes {
		c := NewCall(OpTake, checks)
		c.Slot = slot
		w := c.awaitedBy(ctx, until)
		waits[i] = func() error { return endTry(c, n.undecided(ctx, c, w.wait())) }
		if refused := n.Batcher.park(c); refused != nil {
			w.recycle()
			c.Recycle()
			waits[i] = func() error { return refused }
		}
	}
	n.Batcher.sendParked()
	for _, wait := range waits {
		err = cmp.Or(err, wait())
	}
	return err
}

// try runs one operation on a node, whatever its breaker's state. A foreign value is a fault of the key,
// and none of Redis.
func (r *Store) try(ctx context.Context, n *Node, op Operation, slot uint16, checks []limiter.Check) error {
	return r.tryCall(ctx, n, NewCall(op, checks), slot, checks)
}

func (r *Store) tryCall(ctx context.Context, n *Node, c *Call, slot uint16, checks []limiter.Check) error {
	c.Slot = slot
	err := n.undecided(ctx, c, n.Batcher.Do(ctx, c, r.Timeout))
	if err == nil {
		copy(checks, c.Checks)
	}
	return endTry(c, err)
}

// endTry ends a call that was tried, which is gone already after an error. The error is nil where only the key's value is foreign.
func endTry(c *Call, err error) error {
	if err == nil {
		c.Recycle()
	}
	if limiter.Kind(err) == "value" {
		return nil
	}
	return err
}

// probeChecks returns the checks of a probe: a unit of the reserved key under each policy.
func (r *Store) probeChecks(a *attempt) []limiter.Check {
	key := r.probeKey(a.Slot)
	var checks []limiter.Check
	for _, p := range a.Policies {
		checks = append(checks, limiter.Check{Policy: forProbes(p), Key: limiter.AsEncoded(key)})
	}
	if len(checks) == 0 {
		checks = append(checks, limiter.Check{Policy: anyProbed, Key: limiter.AsEncoded(key)})
	}
	return checks
}

// probeKey returns the reserved key of probes, in a slot where there are slots.
func (r *Store) probeKey(slot uint16) string {
	if r.Slotted.Load() {
		return r.ProbeKeyIn(slot)
	}
	return ProbeKey
}

// ProbeKeyIn returns a reserved key in a slot of a Cluster. It is found by trial, once.
func (r *Store) ProbeKeyIn(slot uint16) string {
	if key, known := r.probeKeys.Load(slot); known {
		return key.(string) //nolint:forcetypeassert,errcheck // nothing else is stored
	}
	keys := NewKeyWriter(r.KeyFormat)
	for i := 0; ; i++ {
		if key := ProbeKey + strconv.Itoa(i); keys.SlotOf(key) == slot {
			r.probeKeys.Store(slot, key)
			return key
		}
	}
}

// forProbes returns a policy of the same algorithm, under the same name in Redis, whose keys expire
// soon. Probes of all nodes take units of running requests that nothing releases, and never reach that limit.
func forProbes(p *limiter.Policy) *limiter.Policy {
	s := limiter.Settings{Name: p.Name(), Algorithm: p.Algorithm.Name, Limit: 1000, Window: time.Second}
	if p.CountsRunning {
		s = limiter.Settings{Name: p.Name(), MaxConcurrent: limiter.MaxRunning, NodeTimeout: limiter.MinNodeTimeout, Waits: p.Settings.Waits}
	}
	if p.Ban != nil {
		s.Ban, s.BanAfter = []time.Duration{limiter.MinBan}, limiter.MaxBanAfter // writes, and hardly ever bans
	}
	probed, err := limiter.NewPolicy(s)
	if err != nil {
		return p
	}
	probed.ID = p.ID
	if p.Ban != nil {
		probed.Ban.ID = p.Ban.ID
	}
	return probed
}

// anyProbed is the policy of probes where the failed operation had none.
var anyProbed = forAnyProbe()

func forAnyProbe() *limiter.Policy {
	p, err := limiter.NewPolicy(limiter.Settings{Name: "probe", Algorithm: limiter.GCRA, Limit: 1000, Window: time.Second})
	if err != nil {
		panic(err) // a fault of this line
	}
	return p
}

// reach makes a node ready that was away when an attempt failed, and repeats the attempt. It returns after how long the next
// time is due if the attempt fails: soon where the node is away, or was it until now.
func (r *Store) reach(n *Node, a *attempt) (next time.Duration) {
	next = probeInterval
	if isAway(a.Err) {
		if a.unreached {
			next = knockInterval
		}
		err := r.prepare(n, a)
		if a.unreached = isAway(err); a.unreached {
			a.Err = dial.Undecided(err)
			return knockInterval
		}
	}
	a.Err = r.probe(n.life, n, a)
	return next
}

// resume ends the outage of a node. What this process runs is told at once: the node timeout goes on meanwhile.
func (r *Store) resume(n *Node) {
	n.Breaker.Close()
	r.Running.tellSoon()
}

// prepare has a node hold as many connections as it used, and know the scripts that were in use when an attempt failed.
func (r *Store) prepare(n *Node, a *attempt) error {
	connections, scripts := n.Batcher.peak(), r.introductions(n.life, a)
	if n.renewal != nil {
		return n.renewal.client.Prepare(n.life, r.patience(), connections, scripts)
	}
	if client, ok := n.Client.(*goredis.Client); ok {
		return dial.Prepare(n.life, client, r.patience(), connections, scripts)
	}
	return nil // all of a Cluster
}

// patience is how long what no request waits for may take.
func (r *Store) patience() time.Duration {
	return min(max(r.Timeout, probeInterval), dial.ConnectBudget)
}

// introductions are commands that have a Redis know the scripts that were in use in the minute before an attempt failed, on
// the key of probes. The user may lack a right that they need: decisions show that.
func (r *Store) introductions(ctx context.Context, a *attempt) (commands []goredis.Cmder) {
	w := r.writer()
	defer r.Writers.Put(w)
	key := string(w.Keys.Append(nil, anyProbed.ID, r.probeKey(a.Slot)))
	for _, script := range r.Scripts.InUse(a.at.Add(-scriptsKept)) {
		commands = append(commands, script.Introduce(ctx, key))
	}
	return commands
}
