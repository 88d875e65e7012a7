package redis

import (
	"errors"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file is the rule by which this process reports to Redis how many units of a key's requests it runs.
// Messages get lost, overtake one another and arrive late, so that Redis cannot add up what it is sent.
// What it has of a node belongs to an epoch of that node, and every message names the epoch that it was
// sent in:
//
//	take, release  change the node's count by a request's units
//	state          changes nothing, and shows that the node is alive
//
// Where this process does not know what Redis has, it begins a new epoch. Its base is what runs here and
// what is on its way. The first message of an epoch that arrives makes the base the count, whatever was
// there. Messages of older epochs are refused from then on (superseded), because the base has what they
// would have changed. Nothing waits for anything. For example, limit 2:
//
//	take 1, epoch 1, base 0  The answer is lost, and the request is denied. Did the take run?
//	state,  epoch 2, base 0  Redis counts 0. Should the take come only now, it is refused.
//	take 1, epoch 2          Redis counts 1. No base is sent: an answer has shown that Redis knows epoch 2.
//	                         Redis loses its data.
//	take 1, epoch 2          Redis does not know the node, and refuses what has no base (lost).
//	take 1, epoch 3, base 1  The take is sent again. Redis counts 2.

// record is what this process knows of the requests that it runs for one key. The lock of its
// shard guards it.
type record struct {
	Policy  *limiter.Policy // one of those that count in the key's state
	Key     string
	running int64 // units that run
	takes   int64 // units of takes in flight

	epoch    int64
	base     int64
	known    bool         // Redis has answered a message of this epoch
	Dirty    bool         // a state is to be sent
	stating  int64        // the epoch of a state in flight; 0: there is none
	Inflight int          // messages
	keepTill clock.Moment // no release removes the node's entry before: a message may still arrive
	ended    bool         // the last release has left, and another record may have the key

	due   clock.Moment // when its next state is
	index int          // in its shard's heap; -1: none
}

// Run is one check's message on its way, or a check's part in what runs.
type Run struct {
	Record *record
	Units  int64
	stamp  Stamp
}

var _ Stamped = (*Run)(nil) // a check holds it as any

// StampOf implements [Stamped].
func (m *Run) StampOf() Stamp { return m.stamp }

// waitingTake is the message of a take whose request waits.
type waitingTake struct {
	Run
	turn *kernel.Turn
}

var _ interface {
	Stamped
	Turned
} = (*waitingTake)(nil)

// TurnOf implements [Turned].
func (w *waitingTake) TurnOf() *kernel.Turn { return w.turn }

// RunOf returns the message or the part of a check; nil where it has none.
func RunOf(c *limiter.Check) *Run {
	switch m := c.State.Owner.(type) {
	case *Run:
		return m
	case *waitingTake:
		return &m.Run
	}
	return nil
}

// MessageFate is what became of a message.
type MessageFate int

// The fates of a message.
const (
	RanOK      MessageFate = iota // it ran; a take was granted
	ranDenied                     // a take was denied, by whatever check
	RanLate                       // its epoch was superseded or lost, and it changed nothing
	ranUnknown                    // it may have run, or run later
	ranNever                      // it was not sent
)

// newEpoch begins a new epoch, whose base is all that runs and all that is being taken.
func (t *Tracker) newEpoch(r *record, now clock.Moment) {
	r.epoch = t.epochs.Add(1)
	r.base = r.running + r.takes
	r.known = false
	t.markDirty(r, now)
}

// stamp returns the epoch and the base that a message is sent with.
func (r *record) stamp() Stamp {
	if r.known {
		return Stamp{Epoch: r.epoch, Base: NoBase}
	}
	return Stamp{Epoch: r.epoch, Base: r.base}
}

// beginTake counts a take that leaves.
func (r *record) beginTake(units int64) Run {
	r.takes += units
	r.Inflight++
	return Run{r, units, r.stamp()}
}

// beginRelease counts a release that leaves. Where it is the last message of all, the record ends with
// it.
func (r *record) beginRelease(units int64, now clock.Moment) Run {
	m := Run{r, units, r.stamp()}
	if r.running == 0 && r.Inflight == 0 && r.known && !r.Dirty && now >= r.keepTill {
		r.ended, m.stamp.Base = true, NothingLeft
	}
	r.Inflight++
	return m
}

// beginState counts a state that leaves.
func (r *record) beginState() Run {
	r.Dirty, r.stating = false, r.epoch
	r.Inflight++
	return Run{Record: r, stamp: r.stamp()}
}

// endTake ends a take. It reports whether its units have to be released, because a base has them that
// was made meanwhile.
func (t *Tracker) endTake(m Run, fate MessageFate, now clock.Moment) (release bool) {
	r := m.Record
	r.takes -= m.Units
	r.Inflight--
	isCurrent := m.stamp.Epoch == r.epoch
	switch fate {
	case RanOK:
		r.running += m.Units
		r.known = r.known || isCurrent
		return false
	case ranDenied:
		return !isCurrent
	case ranNever:
		if !isCurrent {
			t.newEpoch(r, now)
		}
		return false
	case ranUnknown:
		t.keep(r, now)
	}
	if isCurrent {
		t.newEpoch(r, now)
	} else if fate == ranUnknown && !r.known {
		t.markDirty(r, now)
	}
	return !isCurrent
}

// endMessage ends a release or a state.
func (t *Tracker) endMessage(m Run, fate MessageFate, now clock.Moment) {
	r := m.Record
	if r.ended {
		t.endLast(r, fate, now)
		return
	}
	r.Inflight--
	isCurrent := m.stamp.Epoch == r.epoch
	if m.Units == 0 && r.stating == m.stamp.Epoch {
		r.stating = 0
	}
	if fate == ranUnknown {
		t.keep(r, now)
	}
	switch {
	case fate == RanOK:
		r.known = r.known || isCurrent
	case isCurrent && (fate == RanLate || m.Units > 0):
		t.newEpoch(r, now)
	case fate != RanLate && (!r.known || fate == ranNever):
		t.markDirty(r, now)
	}
}

// endLast ends the release that ended its record. Where Redis may still have the units, a state of a
// later epoch corrects that; where one is known already, it has.
func (t *Tracker) endLast(ended *record, fate MessageFate, now clock.Moment) {
	if fate == RanOK || fate == RanLate {
		return
	}
	r := t.find(ended.Policy, ended.Key, now)
	if fate == ranUnknown {
		t.keep(r, now)
	}
	if !r.known {
		t.markDirty(r, now)
	}
}

// keep keeps the node's entry in Redis for as long as a message of unknown fate could change it: an
// entry that is gone cannot refuse it.
func (t *Tracker) keep(r *record, now clock.Moment) {
	r.keepTill = now.Add(r.Policy.Settings.NodeTimeout)
}

// letThrough counts units that run without Redis's decision.
func (t *Tracker) letThrough(r *record, units int64, now clock.Moment) {
	r.running += units
	t.newEpoch(r, now)
}

// isIdle reports whether the record holds nothing that is needed later.
func (r *record) isIdle(now clock.Moment) bool {
	return r.running == 0 && r.Inflight == 0 && !r.Dirty && now >= r.keepTill
}

// refresh prepares the state that a record sends at its time. It reports whether there is one to send.
func (t *Tracker) refresh(r *record, now clock.Moment) bool {
	switch {
	case r.Dirty:
		return r.stating != r.epoch
	case r.running == 0 && r.takes == 0:
		return false
	case r.takes == 0:
		t.newEpoch(r, now)
	}
	return true
}

// FateOf returns what became of a message without an answer, or with one that no kernel gave.
func FateOf(err error) MessageFate {
	var caught dial.Failure
	switch {
	case err == nil:
		return RanOK
	case !errors.Is(err, limiter.ErrUndecided), errors.As(err, &caught), MayHaveRun(err):
		return ranUnknown
	}
	return ranNever
}
