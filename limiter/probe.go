package limiter

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// recover probes a node whose breaker is open, once an interval, until it decides again or is
// retired. The probe repeats what opened the breaker: where a user has lost one permission of
// several, any other operation would close it for a moment.
func (r *Redis) recover(n *Node) {
	timer := time.NewTimer(ProbeInterval)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-n.life.Done():
			return
		}
		a := *n.Cause.Load()
		if slot, found := r.Topology.slotAt(n, a.slot); found {
			a.slot = slot
			if a.Err = r.probe(n.life, n, &a); a.Err == nil || FailedAlone(a.Err) {
				n.Breaker.Close()
				return
			}
		}
		if n.life.Err() != nil {
			return
		}
		n.Cause.Store(&a)
		n.Breaker.Postpone()
		n.Failed()
		timer.Reset(ProbeInterval)
	}
}

// probe repeats an attempt on a node, on the reserved key. A take is followed by a second one, which
// keeps the key's TTL, and by one that is denied, which a log answers by other commands. Before a
// refund it takes two units, and refunds the first of them, so that a log has an entry to move.
func (r *Redis) probe(ctx context.Context, n *Node, a *attempt) error {
	checks := r.probeChecks(a)
	if a.op != OpSettle {
		denied := slices.Clone(checks)
		for i := range denied {
			denied[i].Weight = denied[i].Policy.Capacity()
		}
		for _, take := range [][]Check{checks, checks, denied} {
			if err := r.try(ctx, n, OpTake, a.slot, take); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range checks {
		KeptOf(&checks[i]).Change = -1
	}
	for _, op := range []Operation{OpTakeRefundable, OpTake, OpSettle} {
		if err := r.try(ctx, n, op, a.slot, checks); err != nil {
			return err
		}
	}
	return nil
}

// try runs one operation on a node, whatever its breaker's state. A foreign value is a fault of the key,
// and none of Redis.
func (r *Redis) try(ctx context.Context, n *Node, op Operation, slot uint16, checks []Check) error {
	c := NewCall(op, checks)
	c.Slot = slot
	err := n.outcome(ctx, c, n.Batcher.Do(ctx, c, r.Timeout))
	switch {
	case err == nil:
		c.take(checks)
	case Kind(err) == "value":
		return nil
	}
	return err
}

// probeChecks returns the checks of a probe: a unit of the reserved key under each policy.
func (r *Redis) probeChecks(a *attempt) []Check {
	key := ProbeKey
	if r.Slotted.Load() {
		key = r.ProbeKeyIn(a.slot)
	}
	var checks []Check
	for _, p := range a.Policies {
		checks = append(checks, Check{Policy: forProbes(p), Key: AsEncoded(key)})
	}
	if len(checks) == 0 {
		checks = append(checks, Check{Policy: anyProbed, Key: AsEncoded(key)})
	}
	return checks
}

// ProbeKeyIn returns a reserved key in a slot of a Cluster. It is found by trial, once.
func (r *Redis) ProbeKeyIn(slot uint16) string {
	if key, known := r.probeKeys.Load(slot); known {
		return key.(string) //nolint:forcetypeassert,errcheck // nothing else is stored
	}
	keys := r.KeyFormat.NewWriter()
	for i := 0; ; i++ {
		if key := ProbeKey + strconv.Itoa(i); keys.SlotOf(key) == slot {
			r.probeKeys.Store(slot, key)
			return key
		}
	}
}

// forProbes returns a policy of the same algorithm, under the same name in Redis, whose keys expire
// soon. Probes of all nodes take units of running requests that nothing releases, and never reach that limit.
func forProbes(p *Policy) *Policy {
	s := Settings{Name: p.Name(), Algorithm: p.Rule().Algorithm.Name, Limit: 1000, Window: time.Second}
	if p.CountsRunning() {
		s = Settings{Name: p.Name(), MaxConcurrent: MaxRunning, NodeTimeout: MinNodeTimeout}
	}
	if p.Rule().Ban != nil {
		s.Ban, s.BanAfter = []time.Duration{MinBan}, MaxBanAfter // writes, and hardly ever bans
	}
	probed, err := NewPolicy(s)
	if err != nil {
		return p
	}
	probed.Rule().ID = p.Rule().ID
	if p.Rule().Ban != nil {
		probed.Rule().Ban.ID = p.Rule().Ban.ID
	}
	return probed
}

// anyProbed is the policy of probes where the failed operation had none.
var anyProbed = forAnyProbe()

func forAnyProbe() *Policy {
	p, err := NewPolicy(Settings{Name: "probe", Algorithm: GCRA, Limit: 1000, Window: time.Second})
	if err != nil {
		panic(err) // a fault of this line
	}
	return p
}

// Probe reports why Redis does not decide requests of such checks now, nil where it does. It takes
// units of a reserved key under their policies, in their slots, and charges nothing of the checks.
// Where the breaker is open nothing is sent, and the error is that of the last probe.
func (r *Redis) Probe(ctx context.Context, checks []Check) error {
	if !r.hold() {
		return ErrClosed
	}
	defer r.Uses.Release()
	groups := []*slotGroup{{checks: checks}}
	if r.Slotted.Load() {
		groups = r.GroupBySlot(checks)
	}
	for _, g := range groups {
		if err := r.probeUnlessOpen(ctx, r.Topology.To(g.slot), attemptOf(OpTake, g.slot, g.checks, nil)); err != nil {
			return err
		}
	}
	return nil
}

// ProbeAll is as [Redis.Probe], on every master in use, for any client of the policies.
func (r *Redis) ProbeAll(ctx context.Context, policies []*Policy) error {
	if !r.hold() {
		return ErrClosed
	}
	defer r.Uses.Release()
	a := attempt{op: OpTake, slot: r.KeyFormat.NewWriter().SlotOf(ProbeKey), Policies: onePerScript(policies)}
	for _, n := range r.Topology.Nodes() {
		own := a
		own.slot, _ = r.Topology.slotAt(n, a.slot)
		if err := r.probeUnlessOpen(ctx, n, &own); err != nil {
			return err
		}
	}
	return nil
}

// onePerScript returns policies that need, together, all the commands of the given ones.
func onePerScript(policies []*Policy) []*Policy {
	var kept []*Policy
	var seen KernelSet
	for _, p := range policies {
		if own := fragmentsOf(p); own&^seen != 0 {
			seen |= own
			kept = append(kept, p)
		}
	}
	return kept
}

// probeUnlessOpen probes a node, or returns why its breaker is open.
func (r *Redis) probeUnlessOpen(ctx context.Context, n *Node, a *attempt) error {
	if cause := n.Cause.Load(); cause != nil && n.Breaker.Open() {
		return cause.Err
	}
	return r.probe(ctx, n, a)
}
