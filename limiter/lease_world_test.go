package limiter

import (
	queue "container/heap"
	"hash/maphash"
	"math/rand/v2"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// leaseWorld is a key of one policy, the store that counts it, and nodes that lease from it, on one virtual
// time: that of the store's clock, in microseconds. The nodes' tables and the kernels are the real ones;
// the network between them loses, delays and reorders.
type leaseWorld struct {
	random *rand.Rand
	policy *Policy
	key    EncodedKey
	events events
	now    int64
	nodes  []*leaseNode

	store    leaseStoreInWorld
	admitted []admission
	special  []int64 // instants at which something changes

	decisions, leased, spent, returned, late, lost, restored, paused int64
}

// leaseStoreInWorld is the store: it gives back and leases, or takes without a lease.
type leaseStoreInWorld interface {
	Lease(now int64, c *Check, wish kernel.Wish, rest int64, r kernel.Receipt) (Result, kernel.Lease)
}

// kernelStore is the Go twin's state of one key.
type kernelStore struct{ held kernel.State }

func (s *kernelStore) Lease(now int64, c *Check, wish kernel.Wish, rest int64, r kernel.Receipt) (Result, kernel.Lease) {
	t, k := &c.Policy.Rule().Params, leasingKernelOf(c.Policy)
	tick := now / t.Tick
	if rest > 0 {
		s.held = k.GiveBack(s.held, tick, t, rest, r)
	}
	v, l, next := k.Lease(s.held, tick, t, unitsOf(c), 0, wish)
	s.held = next
	setAnswer(c, v, now)
	l.Lasts = t.Micros(l.Lasts, now%t.Tick)
	return c.Result, l
}

// leaseNode is a process: its leases, and its monotonic clock, which runs at a rate of its own.
type leaseNode struct {
	world  *leaseWorld
	table  *leaseTable
	rate   float64
	grants map[*busyKey]map[uint64]int64 // when the lease of a number was granted
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
	n := &leaseNode{world: w, rate: rate, grants: map[*busyKey]map[uint64]int64{}}
	n.restart()
	return n
}

// restart begins with an empty table, as after a crash. What was under way goes on with the old one, by leases
// whose grants are still known.
func (n *leaseNode) restart() {
	t := newLeaseTable()
	n.table = t
	t.now = func() clock.Moment { return n.clock(n.world.now) }
	t.after = func(d time.Duration, f func()) leaseTimer {
		timer := &worldTimer{node: n, f: f}
		timer.Reset(d)
		return timer
	}
	t.ask = func(q leaseQuestion) { n.ask(t, q, &Check{Policy: n.world.policy, Key: n.world.key, Peek: true}) }
	t.giveBack = func(_ *busyKey, l heldUnits) { n.giveBack(l) }
}

// clock returns what the node's monotonic clock shows at an instant.
func (n *leaseNode) clock(at int64) clock.Moment { return clock.Moment(n.rate * float64(at) * 1000) }

// delay is how long a message or a process is held up.
func (w *leaseWorld) delay() int64 {
	longest := w.policy.Rule().Params.LongestLease() * w.policy.Rule().Params.Tick
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
func (n *leaseNode) giveBack(l heldUnits) {
	w := n.world
	w.returned += l.left
	if w.random.IntN(10) == 0 {
		return
	}
	delay := w.delay()
	if w.random.IntN(8) == 0 {
		delay += w.random.Int64N(2 * w.policy.Rule().Params.Window * w.policy.Rule().Params.Tick)
	}
	w.later(delay, func() {
		w.store.Lease(w.now, &Check{Policy: w.policy, Key: w.key, Peek: true}, kernel.Wish{}, l.left, l.receipt)
	})
}

// ask sends a question and its answer, either of which may be lost.
func (n *leaseNode) ask(t *leaseTable, q leaseQuestion, c *Check) {
	w, sent := n.world, n.world.now
	q.sent = n.clock(w.now)
	if w.random.IntN(20) == 0 { // lost on the way; sometimes that is known
		arrived := w.random.IntN(2) == 0
		if !arrived && q.rest.left > 0 {
			w.restored++
		}
		w.later(w.delay(), func() { t.failed(q, arrived) })
		return
	}
	w.later(w.delay(), func() {
		result, l := w.store.Lease(w.now, c, q.wish, q.rest.left, q.rest.receipt)
		w.decisions++
		granted := w.now
		if unitsOf(c) > 0 && result.Passes() {
			w.admit(w.now, unitsOf(c)) // counted even where the answer is lost
		}
		w.leased += l.Units
		if l.Units > 0 {
			until := q.sent.Add(time.Duration(l.Lasts-(l.Lasts+7)/8) * time.Microsecond)
			w.special = append(w.special, granted+l.Lasts, granted+l.Lasts-1, sent+int64(float64(until-q.sent)/1000/n.rate),
				sent+int64(float64(l.Lasts)/n.rate)-1) // where no margin was left for the clocks
		}
		missed := false
		if w.random.IntN(12) == 0 { // the answer is lost, or comes after the caller has left
			w.lost++
			if missed = w.random.IntN(2) == 0; !missed {
				w.later(w.delay(), func() { t.failed(q, true) })
				return
			}
			t.failed(q, true)
			q.rest.left = 0
		}
		w.later(w.delay(), func() {
			before := q.key.number
			t.answered(q, result.Remaining, result.ResetAfter, l)
			switch {
			case q.key.number > before:
				if n.grants[q.key] == nil {
					n.grants[q.key] = map[uint64]int64{}
				}
				n.grants[q.key][q.key.number] = granted
			case l.Units > 0:
				w.late++
			}
		})
	})
}

// makeBusy makes the key one that the node has seen often.
func (n *leaseNode) makeBusy() {
	t, w := n.table, n.world
	hash := maphash.String(t.seed, w.key.String())
	s := &t.shards[hash%leaseShards]
	seen := pace{last: t.now(), gap: float64(1 + w.random.IntN(int(w.policy.Rule().Lease)/busyIn)), gaps: paceSamples}
	if k := s.busy[leaseKey{w.policy, w.key.String()}]; k != nil {
		k.pace = seen
		return
	}
	if s.seen == nil {
		s.seen = new([leaseSlots]watchedKey)
	}
	s.seen[hash/leaseShards%leaseSlots] = watchedKey{key: hash ^ w.policy.Rule().Salt, pace: seen}
}

// request decides a request as [Failover.decideByLeases] does.
func (n *leaseNode) request(weight int64) (local bool) {
	w := n.world
	w.decisions++
	if w.random.IntN(10) == 0 { // paused between reading the clock and taking the units
		w.paused++
		read, t := w.now, n.table
		w.later(w.delay(), func() { n.spend(t, read, weight) })
		return true
	}
	c := &Check{Policy: w.policy, Key: w.key, Weight: weight}
	k, spent := n.spend(n.table, w.now, weight)
	if spent {
		return true
	}
	q := leaseQuestion{}
	if k != nil {
		q = n.table.question(k)
		if q.wish.Units > 0 && w.random.IntN(2) == 0 { // more, or for longer, than the pace asks for
			p := &w.policy.Rule().Params
			units := []int64{1, 1 + w.random.Int64N(p.Capacity/100+1), 1 + w.random.Int64N(p.Capacity), p.Capacity}
			lasts := []int64{1, 1 + w.random.Int64N(p.LongestLease()), p.LongestLease(), 2 * p.LongestLease()}
			q.wish = kernel.Wish{Units: units[w.random.IntN(4)], Lasts: lasts[w.random.IntN(4)]}
		}
	}
	if q.wish.Units > 0 {
		n.ask(n.table, q, c)
		return false
	}
	w.later(w.delay(), func() {
		if result, _ := w.store.Lease(w.now, c, kernel.Wish{}, 0, kernel.Receipt{}); result.Passes() {
			w.admit(w.now, weight)
		}
	})
	return false
}

// spend takes units of a lease by a reading of the clock. Now and then the request is denied by another
// check afterwards, and puts them back.
func (n *leaseNode) spend(t *leaseTable, read, weight int64) (*busyKey, bool) {
	w := n.world
	c := &Check{Policy: w.policy, Key: w.key, Weight: weight}
	k, spent := t.spend(c, n.clock(read))
	if spent.number == 0 {
		return k, false
	}
	if w.random.IntN(8) == 0 {
		w.later(w.delay(), func() { t.putBack(k, spent, c) })
		return k, true
	}
	w.spent += weight
	w.admit(max(read, n.grants[k][spent.number]), weight)
	return k, true
}
