package redis

import (
	"context"
	"slices"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/wire"
)

// recover probes a node that fails, and again after an interval unless it decides or is
// retired. The probe repeats what opened the breaker: where a user has lost one permission of
// several, any other operation would close it for a moment.
func (r *Store) recover(n *Node) {
	a := *n.Cause.Load()
	if n.renewal != nil && wire.IsRefusal(a.Err) {
		n.renewal.startBy(0) // the address may lead to a server that decides
	}
	if slot, found := r.Topology.slotAt(n, a.Slot); found {
		a.Slot = slot
		if a.Err = r.probe(n.life, n, &a); a.Err == nil || limiter.FailedAlone(a.Err) {
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
	n.Breaker.postpone()
	n.Failed()
	n.Probes.Start(probeInterval)
}

// resume ends the outage of a node. What this process runs is told at once: the node timeout goes on meanwhile.
func (r *Store) resume(n *Node) {
	n.Breaker.Close()
	r.Running.tellSoon()
}

// renew replaces the connections of a node if new ones lead to a Redis that decides. While the breaker is open the
// new ones have to decide what opened it, which ends the outage.
func (r *Store) renew(n *Node) {
	attempt := &attempt{Op: wire.OpTake}
	if cause := n.Cause.Load(); cause != nil && n.Breaker.Open() {
		attempt = cause
	}
	renewed, err := n.renewal.client.Renew(n.life, func(fresh *goredis.Client) error {
		on := r.Topology.newNode(fresh)
		defer on.retire(nil)
		return r.probe(n.life, on, attempt)
	})
	if renewed && n.Breaker.Open() {
		r.resume(n)
	}
	if err != nil && refusedLogin(err) && r.Topology.refused != nil {
		r.Topology.refused(wire.Undecided(err))
	}
	n.renewal.startLater()
}

// probe repeats an attempt on a node, on the reserved key. A take is followed by two more, of which one is in the
// window of the take before it and keeps the key's TTL, and by one that is denied, which a log answers by other
// commands. Before a refund it takes two units, and refunds the first of them, so that a log has an entry to move.
func (r *Store) probe(ctx context.Context, n *Node, a *attempt) error {
	checks := r.probeChecks(a)
	if a.Op != wire.OpChange {
		denied := slices.Clone(checks)
		for i := range denied {
			denied[i].Weight = denied[i].Policy.Capacity()
		}
		for _, take := range [][]limiter.Check{checks, checks, checks, denied} {
			if err := r.try(ctx, n, wire.OpTake, a.Slot, take); err != nil {
				return err
			}
		}
		return nil
	}
	for _, op := range []wire.Operation{wire.OpTake | wire.WithReceipt, wire.OpTake} {
		if err := r.try(ctx, n, op, a.Slot, checks); err != nil {
			return err
		}
	}
	return r.tryCall(ctx, n, NewChange(checks, slices.Repeat([]limiter.Change{{Units: -1}}, len(checks))...), a.Slot, checks)
}

// try runs one operation on a node, whatever its breaker's state. A foreign value is a fault of the key,
// and none of Redis.
func (r *Store) try(ctx context.Context, n *Node, op wire.Operation, slot uint16, checks []limiter.Check) error {
	return r.tryCall(ctx, n, NewCall(op, checks), slot, checks)
}

func (r *Store) tryCall(ctx context.Context, n *Node, c *Call, slot uint16, checks []limiter.Check) error {
	c.Slot = slot
	err := n.undecided(ctx, c, n.Batcher.Do(ctx, c, r.Timeout))
	switch {
	case err == nil:
		copy(checks, c.Checks)
		c.Recycle()
	case limiter.Kind(err) == "value":
		return nil
	}
	return err
}

// probeChecks returns the checks of a probe: a unit of the reserved key under each policy.
func (r *Store) probeChecks(a *attempt) []limiter.Check {
	key := wire.ProbeKey
	if r.Slotted.Load() {
		key = r.ProbeKeyIn(a.Slot)
	}
	var checks []limiter.Check
	for _, p := range a.Policies {
		checks = append(checks, limiter.Check{Policy: forProbes(p), Key: limiter.AsEncoded(key)})
	}
	if len(checks) == 0 {
		checks = append(checks, limiter.Check{Policy: anyProbed, Key: limiter.AsEncoded(key)})
	}
	return checks
}

// ProbeKeyIn returns a reserved key in a slot of a Cluster. It is found by trial, once.
func (r *Store) ProbeKeyIn(slot uint16) string {
	if key, known := r.probeKeys.Load(slot); known {
		return key.(string) //nolint:forcetypeassert,errcheck // nothing else is stored
	}
	keys := wire.NewWriter(r.KeyFormat)
	for i := 0; ; i++ {
		if key := wire.ProbeKey + strconv.Itoa(i); keys.SlotOf(key) == slot {
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
