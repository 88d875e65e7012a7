package storetest

import (
	queue "container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/lease"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// leaseWorld is a key of one policy, the store that counts it, and nodes that lease from it, on one virtual
// time: that of the store's clock, in microseconds. The nodes' tables and the kernels are the real ones;
// the network between them loses, delays and reorders.
type leaseWorld struct {
	t      *testing.T
	play   *assert.Play
	random *rand.Rand
	policy *limiter.Policy
	key    limiter.EncodedKey
	events events
	now    int64
	nodes  []*leaseNode

	store    *Candidate
	admitted []admission
	special  []int64 // instants at which something changes

	decisions, leased, spent, returned, late, lost, restored, paused int64
}

// lease has the store give back and lease, or take without a lease.
func (w *leaseWorld) lease(c *limiter.Check, wish kernel.Wish, rest int64, r kernel.Receipt) (limiter.Result, kernel.Lease) {
	w.store.SetClock(w.now)
	return w.store.Lease(w.t, c, wish, rest, r)
}

// leaseNode is a process: its leases, and its monotonic clock, which runs at a rate of its own.
type leaseNode struct {
	world  *leaseWorld
	table  *lease.Table
	rate   float64
	grants map[*lease.BusyKey]map[uint64]int64 // when the lease of a number was granted
}

// event is something that happens at an instant.
type event struct {
	at, number int64
	do         func()
}

type events struct {
	list   []event
	number int64
}

func (e *events) Len() int { return len(e.list) }
func (e *events) Less(i, j int) bool {
	a, b := &e.list[i], &e.list[j]
	return a.at < b.at || (a.at == b.at && a.number < b.number)
}
func (e *events) Swap(i, j int) { e.list[i], e.list[j] = e.list[j], e.list[i] }
func (e *events) Push(x any)    { e.list = append(e.list, x.(event)) } //nolint:forcetypeassert,errcheck // nothing else is pushed
func (e *events) Pop() any {
	last := e.list[len(e.list)-1]
	e.list = e.list[:len(e.list)-1]
	return last
}

// later has something happen after some microseconds.
func (w *leaseWorld) later(after int64, do func()) {
	w.events.number++
	queue.Push(&w.events, event{w.now + max(0, after), w.events.number, do})
}

// run runs until nothing happens any more.
func (w *leaseWorld) run() {
	for len(w.events.list) > 0 {
		e := queue.Pop(&w.events).(event) //nolint:forcetypeassert,errcheck // nothing else is pushed
		w.now = e.at
		e.do()
	}
}

// worldTimer is a timer of a node, which runs late.
type worldTimer struct {
	node    *leaseNode
	f       func()
	current int
}

func (t *worldTimer) Reset(d time.Duration) bool {
	t.current++
	set, w := t.current, t.node.world
	w.later(int64(float64(d)/1000/t.node.rate)+1+w.delay(), func() {
		if set == t.current {
			t.f()
		}
	})
	return true
}

func (t *worldTimer) Stop() bool {
	t.current++
	return true
}

// newNode starts a node.
func (w *leaseWorld) newNode(rate float64) *leaseNode {
	n := &leaseNode{world: w, rate: rate, grants: map[*lease.BusyKey]map[uint64]int64{}}
	n.restart()
	return n
}

// restart begins with an empty table, as after a crash. What was under way goes on with the old one, by leases
// whose grants are still known.
func (n *leaseNode) restart() {
	t := lease.NewTable()
	n.table = t
	t.Now = func() clock.Moment { return n.clock(n.world.now) }
	t.After = func(d time.Duration, f func()) clock.Timer {
		timer := &worldTimer{node: n, f: f}
		timer.Reset(d)
		return timer
	}
	t.Ask = func(q lease.Question) {
		n.ask(t, q, &limiter.Check{Policy: n.world.policy, Key: n.world.key, Peek: true})
	}
	t.GiveBack = func(_ *lease.BusyKey, l lease.HeldUnits) { n.giveBack(l) }
}

// clock returns what the node's monotonic clock shows at an instant.
func (n *leaseNode) clock(at int64) clock.Moment { return clock.Moment(n.rate * float64(at) * 1000) }

// delay is how long a message or a process is held up.
func (w *leaseWorld) delay() int64 {
	longest := w.policy.Params.LongestLease() * w.policy.Params.Tick
	switch w.random.IntN(12) {
	case 0:
		return 0
	case 1:
		return w.random.Int64N(longest + 1)
	case 2:
		return w.random.Int64N(3*longest + 1)
	}
	return w.random.Int64N(longest/8 + 1)
}

// admit notes that units passed at an instant.
func (w *leaseWorld) admit(at, weight int64) { w.admitted = append(w.admitted, admission{at, weight}) }

// giveBack sends units back, which may be lost or very late.
func (n *leaseNode) giveBack(l lease.HeldUnits) {
	w := n.world
	w.returned += l.Left
	if w.random.IntN(10) == 0 {
		return
	}
	delay := w.delay()
	if w.random.IntN(8) == 0 {
		delay += w.random.Int64N(2 * w.policy.Params.Window * w.policy.Params.Tick)
	}
	w.later(delay, func() {
		w.lease(&limiter.Check{Policy: w.policy, Key: w.key, Peek: true}, kernel.Wish{}, l.Left, l.Receipt)
	})
}

// ask sends a question and its answer, either of which may be lost.
func (n *leaseNode) ask(t *lease.Table, q lease.Question, c *limiter.Check) {
	w, sent := n.world, n.world.now
	q.Sent = n.clock(w.now)
	if w.random.IntN(20) == 0 { // lost on the way; sometimes that is known
		arrived := w.random.IntN(2) == 0
		if !arrived && q.Rest.Left > 0 {
			w.restored++
		}
		w.later(w.delay(), func() { t.Failed(q, arrived) })
		return
	}
	w.later(w.delay(), func() {
		result, l := w.lease(c, q.Wish, q.Rest.Left, q.Rest.Receipt)
		w.decisions++
		granted := w.now
		if limiter.Units(c) > 0 && result.Passes() {
			w.admit(w.now, limiter.Units(c)) // counted even where the answer is lost
		}
		w.leased += l.Units
		if l.Units > 0 {
			until := q.Sent.Add(time.Duration(l.Lasts-(l.Lasts+7)/8) * time.Microsecond)
			w.special = append(w.special, granted+l.Lasts, granted+l.Lasts-1, sent+int64(float64(until-q.Sent)/1000/n.rate),
				sent+int64(float64(l.Lasts)/n.rate)-1) // where no margin was left for the clocks
		}
		missed := false
		if w.random.IntN(12) == 0 { // the answer is lost, or comes after the caller has left
			w.lost++
			if missed = w.random.IntN(2) == 0; !missed {
				w.later(w.delay(), func() { t.Failed(q, true) })
				return
			}
			t.Failed(q, true)
			q.Rest.Left = 0
		}
		w.later(w.delay(), func() {
			before := q.Key.Number
			t.Answered(q, result.Remaining, result.ResetAfter, l)
			switch {
			case q.Key.Number > before:
				if n.grants[q.Key] == nil {
					n.grants[q.Key] = map[uint64]int64{}
				}
				n.grants[q.Key][q.Key.Number] = granted
			case l.Units > 0:
				w.late++
			}
		})
	})
}

// makeBusy makes the key one that the node has seen often.
func (n *leaseNode) makeBusy() {
	t, w := n.table, n.world
	hash := limiter.HashKey(w.key.String())
	s := &t.Shards[hash%limiter.ShardCount]
	seen := lease.Pace{Last: t.Now(), Gap: float64(1 + w.random.IntN(int(w.policy.Lease)/lease.BusyIn)), Gaps: lease.PaceSamples}
	if k := s.Busy[lease.Quota{Policy: w.policy, Key: w.key.String()}]; k != nil {
		k.Pace = seen
		return
	}
	if s.Seen == nil {
		s.Seen = new([lease.LeaseSlots]lease.WatchedKey)
	}
	s.Seen[hash/limiter.ShardCount%lease.LeaseSlots] = lease.WatchedKey{Key: hash ^ w.policy.Salt, Pace: seen}
}

// request decides a request as decideByLeases of the store in failover does.
func (n *leaseNode) request(weight int64) (local bool) {
	w := n.world
	w.decisions++
	if w.random.IntN(10) == 0 { // paused between reading the clock and taking the units
		w.paused++
		read, t := w.now, n.table
		w.later(w.delay(), func() { n.spend(t, read, weight) })
		return true
	}
	c := &limiter.Check{Policy: w.policy, Key: w.key, Weight: weight}
	k, spent := n.spend(n.table, w.now, weight)
	if spent {
		return true
	}
	q := lease.Question{}
	if k != nil {
		q = n.table.Question(k)
		if q.Wish.Units > 0 && w.random.IntN(2) == 0 { // more, or for longer, than the pace asks for
			p := &w.policy.Params
			units := []int64{1, 1 + w.random.Int64N(p.Capacity/100+1), 1 + w.random.Int64N(p.Capacity), p.Capacity}
			lasts := []int64{1, 1 + w.random.Int64N(p.LongestLease()), p.LongestLease(), 2 * p.LongestLease()}
			q.Wish = kernel.Wish{Units: units[w.random.IntN(4)], Lasts: lasts[w.random.IntN(4)]}
		}
	}
	if q.Wish.Units > 0 {
		n.ask(n.table, q, c)
		return false
	}
	w.later(w.delay(), func() {
		if result, _ := w.lease(c, kernel.Wish{}, 0, kernel.Receipt{}); result.Passes() {
			w.admit(w.now, weight)
		}
	})
	return false
}

// spend takes units of a lease by a reading of the clock. Now and then the request is denied by another
// check afterwards, and puts them back.
func (n *leaseNode) spend(t *lease.Table, read, weight int64) (*lease.BusyKey, bool) {
	w := n.world
	c := &limiter.Check{Policy: w.policy, Key: w.key, Weight: weight}
	k, spent := t.Spend(c, n.clock(read))
	if spent.Number == 0 {
		return k, false
	}
	if w.random.IntN(8) == 0 {
		w.later(w.delay(), func() { t.PutBack(k, spent, c) })
		return k, true
	}
	w.spent += weight
	w.admit(max(read, n.grants[k][spent.Number]), weight)
	return k, true
}
