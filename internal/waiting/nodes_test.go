package waiting

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file plays several nodes with their own queues around one store, which decides by the kernel. Messages take time.
// Time is the test's, and a run of minutes takes a moment.

// cluster is nodes around a store, and what happens next.
type cluster struct {
	t       testing.TB
	play    *assert.Play
	random  *rand.Rand
	now     clock.Moment
	events  events
	ordered int

	policy *limiter.Policy
	trip   time.Duration // to the store and back
	loss   float64       // part of answers that are lost
	nodes  []*clusterNode

	state   turns
	taken   int64 // by what the store knows
	running int64
	calls   int
	free    clock.Moment  // since when the store has free units while a request waits; 0: it has none
	idle    time.Duration // the longest such time

	warm     clock.Moment // what starts earlier does not count
	busy     time.Duration
	used     float64 // unit seconds
	since    clock.Moment
	nodeWait [][]time.Duration
	userWait map[int][]time.Duration
}

type clusterNode struct {
	*cluster
	id      int64
	queue   *Queue[*units]
	clients []*client // whose requests wait
	runs    []*client
	units   int64 // that the store has given to the node
	dead    bool
}

// event is what happens at a moment.
type event struct {
	at    clock.Moment
	order int
	do    func()
}

type events []event

func (h events) Len() int      { return len(h) }
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h events) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h *events) Push(x any) { *h = append(*h, x.(event)) } //nolint:forcetypeassert,errcheck // the heap holds nothing else
func (h *events) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// after has something happen later.
func (c *cluster) after(d time.Duration, do func()) {
	c.ordered++
	heap.Push(&c.events, event{c.now.Add(d), c.ordered, do})
}

// clusterTimer is a timer of the cluster's time.
type clusterTimer struct {
	c      *cluster
	number int
	fires  func()
}

func (t *clusterTimer) Reset(d time.Duration) bool {
	t.number++
	number := t.number
	t.c.after(max(1, d), func() {
		if t.number == number {
			t.fires()
		}
	})
	return true
}

func (t *clusterTimer) Stop() bool {
	t.number++
	return true
}

func newCluster(t testing.TB, nodes int, limit int64, trip time.Duration) *cluster {
	c := &cluster{
		t: t, play: assert.NewPlay(t, 1), random: rand.New(rand.NewPCG(1, 2)), now: clock.Moment(time.Hour), policy: running(t, limit), trip: trip,
		nodeWait: make([][]time.Duration, nodes), userWait: map[int][]time.Duration{},
	}
	for i := range nodes {
		c.nodes = append(c.nodes, c.newNode(int64(i+1)))
	}
	return c
}

func (c *cluster) newNode(id int64) *clusterNode {
	n := &clusterNode{cluster: c, id: id}
	n.queue = NewQueue(n, Environment{
		Now: func() clock.Moment { return c.now }, Jitter: c.random.Float64,
		After: func(d time.Duration, f func()) clock.Timer {
			timer := &clusterTimer{c: c, fires: func() { n.alive(f) }}
			timer.Reset(d)
			return timer
		},
	})
	return n
}

// note tells the play what a node does.
func (n *clusterNode) note(what string, args ...any) {
	n.play.Step("%v: node %d "+what, append([]any{time.Duration(n.now), n.id}, args...)...)
}

// alive does something that a dead node does not do any more.
func (n *clusterNode) alive(do func()) {
	if !n.dead {
		do()
	}
}

// kill has a node die with all that it runs. Another one takes its place, to which the clients come after a while. The
// store counts what the dead one ran for as long as a node timeout.
func (c *cluster) kill(at int) {
	n := c.nodes[at]
	n.note("dies with %d units", n.units)
	c.count()
	n.dead = true
	c.after(timeout*time.Microsecond, func() { c.taken -= n.units })
	c.nodes[at] = c.newNode(n.id + int64(len(c.nodes)))
	for _, one := range n.runs {
		c.running -= one.weight
	}
	for _, one := range append(n.clients, n.runs...) {
		c.after(2*time.Second, one.send)
	}
}

// way is how long a message takes.
func (c *cluster) way() time.Duration {
	return time.Duration(float64(c.trip) / 2 * (0.9 + 0.2*c.random.Float64()))
}

func (c *cluster) clock() int64 { return int64(c.now / 1000) }

// Try implements [Store]. An answer that is lost costs a timeout; the units of the ask are returned by a state.
func (n *clusterNode) Try(ask Ask, answered func(Answer[*units])) {
	n.after(n.way(), func() {
		n.calls++
		n.note("asks for %d units of %d, %d are taken", ask.Weight, ask.Policy.Limit(), n.taken)
		v := n.state.decide(n.clock(), ask.Policy.Limit(), n.taken, ask.Weight, n.id, &ask.Turn)
		if v.granted {
			n.taken, n.units = n.taken+ask.Weight, n.units+ask.Weight
		}
		if n.random.Float64() < n.loss {
			n.after(250*time.Millisecond, func() { n.alive(func() { n.lost(v.granted, ask.Weight, answered) }) })
			return
		}
		claim, free := NoClaim(), ask.Policy.Limit()-n.taken
		if v.foreign > 0 {
			claim = ForeignClaim(time.Duration(v.foreign) * time.Microsecond)
		}
		answer := Answer[*units](Denied[*units]{time.Duration(v.turnAge) * time.Microsecond, claim})
		if v.granted {
			answer = Granted[*units]{&units{count: ask.Weight}, free, claim}
		}
		n.after(n.way(), func() { n.alive(func() { answered(answer) }) })
	})
}

func (n *clusterNode) lost(granted bool, weight int64, answered func(Answer[*units])) {
	if granted {
		n.after(50*time.Millisecond, func() { n.alive(func() { n.taken, n.units = n.taken-weight, n.units-weight }) })
	}
	answered(Unknown[*units]{})
}

// Release implements [Store].
func (n *clusterNode) Release(held *units) {
	n.after(n.way(), func() {
		n.calls++
		if !n.dead { // else all of the node's go at once
			n.taken, n.units = n.taken-held.count, n.units-held.count
		}
	})
}

// HandOn implements [Store].
func (n *clusterNode) HandOn(held *units, count int64) *units {
	if held.count > count {
		n.Release(&units{count: held.count - count})
	}
	return &units{count: count}
}

// count adds up what is used while a request waits.
func (c *cluster) count() {
	if waits := c.anyWaits(); waits && c.since >= c.warm {
		d := c.now.Since(c.since)
		c.busy += d
		c.used += float64(c.running) * d.Seconds()
	}
	c.since = c.now
	if waits := c.anyWaits(); !waits || c.taken >= c.policy.Limit() {
		if c.free > 0 && c.free >= c.warm {
			c.idle = max(c.idle, c.now.Since(c.free))
		}
		c.free = 0
	} else if c.free == 0 {
		c.free = c.now
	}
}

func (c *cluster) anyWaits() bool {
	for _, n := range c.nodes {
		if len(n.clients) > 0 {
			return true
		}
	}
	return false
}

// client is one that sends a request, and the next one soon after the first is done.
type client struct {
	node    *clusterNode
	user    int
	weight  int64
	order   Order
	service time.Duration
	ticket  *Ticket[*units]
}

func (c *client) send() {
	if n := c.node; n.dead {
		c.node = n.nodes[(n.id-1)%int64(len(n.nodes))]
	}
	n := c.node
	n.note("has a request of user %d for %d units, beside %d that wait", c.user, c.weight, len(n.clients))
	n.count()
	n.clients = append(n.clients, c)
	c.ticket = n.queue.Join(Request{
		Policy: n.policy, Key: limiter.EncodeKey("k"), Weight: c.weight, Longest: time.Hour, Most: 5000, Order: c.order,
	})
}

// follow takes the places that requests of a node have got.
func (n *clusterNode) follow() {
	if int64(len(n.clients)) == n.queue.waiting.Load() {
		return
	}
	for i := len(n.clients) - 1; i >= 0; i-- {
		if o, ok := outcomeNow(n.clients[i].ticket); ok {
			assert.FatalIf(n.t, o.err != nil, "a request ends with %v", o.err)
			n.clients[i].run(o.place)
			n.clients = slices.Delete(n.clients, i, i+1)
		}
	}
}

// run has a request run, and then the client's next one come.
func (c *client) run(p *Place[*units]) {
	n := c.node
	n.note("runs %d units of user %d, beside %d", c.weight, c.user, n.running)
	n.count()
	n.running += c.weight
	n.runs = append(n.runs, c)
	assert.FatalIf(n.t, n.running > n.policy.Limit(), "%d units run of %d", n.running, n.policy.Limit())
	if n.now >= n.warm {
		at := (n.id - 1) % int64(len(n.nodes))
		n.nodeWait[at] = append(n.nodeWait[at], p.Waited)
		n.userWait[c.user] = append(n.userWait[c.user], p.Waited)
	}
	n.after(time.Duration(float64(c.service)*(0.9+0.2*n.random.Float64())), func() {
		n.alive(func() {
			n.count()
			n.running -= c.weight
			n.runs = slices.DeleteFunc(n.runs, func(other *client) bool { return other == c })
			p.End()
			n.after(time.Duration(float64(c.service)*(0.05+0.1*n.random.Float64())), c.send)
		})
	})
}

// pass lets the time pass.
func (c *cluster) pass(d time.Duration) {
	for end := c.now.Add(d); len(c.events) > 0 && c.events[0].at <= end; {
		e := heap.Pop(&c.events).(event) //nolint:forcetypeassert,errcheck // as above
		c.now = e.at
		e.do()
		for _, n := range c.nodes {
			n.follow()
		}
		c.count()
	}
	c.count()
}

// add has clients begin within a service.
func (c *cluster) add(node, count int, like client) {
	for range count {
		one := like
		one.node = c.nodes[node]
		c.after(time.Duration(float64(like.service)*c.random.Float64()/2), one.send)
	}
}

func mean(all []time.Duration) (sum time.Duration) {
	for _, d := range all {
		sum += d
	}
	return sum / time.Duration(max(1, len(all)))
}

func longest(all []time.Duration) (most time.Duration) {
	for _, d := range all {
		most = max(most, d)
	}
	return most
}

// use returns which part of the limit ran while a request waited.
func (c *cluster) use() float64 { return c.used / c.busy.Seconds() / float64(c.policy.Limit()) }

// within reports whether a duration is that of the simulation that the rule was chosen by, or differs by a fifth at most.
func within(got, simulated time.Duration) bool { return 5*(got-simulated).Abs() <= simulated }

// TestNodes_arrival has 90, 9 and 1 clients on three nodes wait alike, in the order of their arrival.
func TestNodes_arrival(t *testing.T) {
	for _, test := range []struct {
		trip time.Duration
		loss float64
		use  float64
	}{{200 * time.Microsecond, 0, 0.99}, {20 * time.Millisecond, 0, 0.99}, {2 * time.Millisecond, 0.01, 0.98}} {
		t.Run(fmt.Sprint("trip ", test.trip), func(t *testing.T) {
			c := newCluster(t, 3, 8, test.trip)
			c.loss = test.loss
			for node, count := range []int{90, 9, 1} {
				c.add(node, count, client{weight: 1, service: time.Second})
			}
			c.warm = c.now.Add(22 * time.Second)
			c.pass(1022 * time.Second)
			for node, simulated := range []time.Duration{11_600 * time.Millisecond, 9_800 * time.Millisecond, 11_200 * time.Millisecond} {
				waits := c.nodeWait[node]
				assert.ErrorIf(t, !within(mean(waits), simulated) || longest(waits) > 15*time.Second,
					"on node %d requests wait for %v, at most %v", node, mean(waits), longest(waits))
			}
			t.Logf("means %v, %v, %v, %.4f are used, %d calls a second",
				mean(c.nodeWait[0]), mean(c.nodeWait[1]), mean(c.nodeWait[2]), c.use(), c.calls/1022)
			assert.ErrorIf(t, c.use() < test.use || c.calls > 60*1022, "%v of the limit is used, by %d calls", c.use(), c.calls)
		})
	}
}

// TestNodes_values has a user with a thousand requests on some nodes, and on the last one another with a request at a time and
// eight with three.
func TestNodes_values(t *testing.T) {
	for _, nodes := range []int{1, 3, 20} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			c := newCluster(t, nodes, 8, 2*time.Millisecond)
			for node := range nodes {
				c.add(node, 1000/nodes, client{user: 0, weight: 1, order: ByValue(0), service: time.Second})
			}
			c.add(nodes-1, 1, client{user: 1, weight: 1, order: ByValue(1), service: time.Second})
			for user := 2; user < 10; user++ {
				c.add(nodes-1, 3, client{user: user, weight: 1, order: ByValue(uint64(user)), service: time.Second})
			}
			c.warm = c.now.Add(33 * time.Second)
			c.pass(363 * time.Second)
			light, heavy := c.userWait[1], c.userWait[0]
			t.Logf("the light user waits for %v, at most %v, starts %d; the heavy one %d; use %.4f, %d calls a second",
				mean(light), longest(light), len(light), len(heavy), c.use(), c.calls/363)
			assert.ErrorIf(t, !within(longest(light), 1_700*time.Millisecond) || len(heavy) > 3*len(light) || c.use() < 0.99,
				"one request at a time waits for %v, %d start beside %d, use %v", longest(light), len(light), len(heavy), c.use())
		})
	}
}

// TestNodes_weights has requests of three units among those of one: free units gather for them.
func TestNodes_weights(t *testing.T) {
	c := newCluster(t, 3, 8, 2*time.Millisecond)
	for node := range 3 {
		c.add(node, 10, client{user: 1, weight: 1, service: time.Second})
		c.add(node, 3, client{user: 3, weight: 3, service: time.Second})
	}
	c.warm = c.now.Add(10 * time.Second)
	c.pass(200 * time.Second)
	one, three := c.userWait[1], c.userWait[3]
	t.Logf("weight 1: %v, at most %v; weight 3: %v, at most %v; use %.4f", mean(one), longest(one), mean(three), longest(three), c.use())
	assert.ErrorIf(t, len(three) < 100 || !within(mean(three), mean(one)),
		"requests of three units wait for %v, of one for %v", mean(three), mean(one))
}

// TestNodes_faults has nodes die and the store lose its claims: a free place waits for the claim of a dead node and for the
// next ask, which is at most as long as both last.
func TestNodes_faults(t *testing.T) {
	c := newCluster(t, 3, 8, 2*time.Millisecond)
	c.loss = 0.01
	for node, count := range []int{40, 10, 2} {
		c.add(node, count, client{weight: 1, service: time.Second})
	}
	c.warm = c.now.Add(5 * time.Second)
	for fault := range 100 {
		c.pass(time.Duration(6*c.random.Float64()) * time.Second)
		if fault%4 == 0 {
			c.state = turns{}
			continue
		}
		c.kill(c.random.IntN(3))
	}
	c.pass(60 * time.Second)
	waiting, units := int64(0), int64(0)
	for _, n := range c.nodes {
		waiting += n.queue.waiting.Load()
		for _, one := range n.runs {
			units += one.weight
		}
	}
	t.Logf("a place is free for %v at most, use %.4f", c.idle, c.use())
	assert.ErrorIf(t, c.idle > 1300*time.Millisecond, "a place is free for %v while a request waits", c.idle)
	assert.FatalIf(t, units != c.running || units < 7 || waiting < 36,
		"%d units run, by the count %d, and %d requests wait", units, c.running, waiting)
}

// TestNodes_keys has more keys than the process's asks suffice for: none is forgotten.
func TestNodes_keys(t *testing.T) {
	const keys = 2000
	c := newCluster(t, 1, 1, 2*time.Millisecond)
	n := c.nodes[0]
	for i := range keys {
		n.queue.Join(Request{Policy: c.policy, Key: limiter.EncodeKey(strconv.Itoa(i)), Weight: 1, Longest: 15 * time.Second, Most: 10})
	}
	c.taken = 1 // by another node, all the time
	c.pass(10 * time.Second)
	t.Logf("%d calls a second", (c.calls-keys)/10)
	assert.ErrorIf(t, c.calls-keys > 10*pollsPerSecond+pollBurst || c.calls-keys < 7*pollsPerSecond, "%d calls in 10 s", c.calls-keys)
	for s := range n.queue.shards.All() {
		for name, l := range s.lines {
			assert.ErrorIf(t, l.round.asking == 0 && c.now.Since(l.next) > time.Second, "%s was due %v ago", name.Key, c.now.Since(l.next))
		}
	}
	c.pass(10 * time.Second)
	assert.Equal(t, n.queue.waiting.Load(), 0, "how many wait when their time is over")
}
