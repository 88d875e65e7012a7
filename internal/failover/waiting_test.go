package failover

import (
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// waitingPolicy returns a policy of so many requests at once, for which others wait.
func waitingPolicy(t testing.TB, limit int64) *limiter.Policy {
	t.Helper()
	return storetest.NewPolicy(t, limiter.Settings{Name: "running", MaxConcurrent: limit, Waits: true})
}

// waits returns a request of the key k that waits for long: on a machine whose processors are all in use, 120 requests that
// start one after the other on two nodes took 20 s, and once a minute.
func waits(p *limiter.Policy, weight int64) waiting.Request {
	return waiting.Request{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Longest: 5 * time.Minute, Most: 1000, FailMode: limiter.FailLocal}
}

// TestQueue_limit has many requests on two nodes wait for few places, by arrival and by value: all start, never more at
// once than the limit, and nothing is left of them.
func TestQueue_limit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	policy := waitingPolicy(t, 5)
	memory1 := New(nil, memory.New(), Behavior{})
	for name, nodes := range map[string][]*Store{
		"memory": {memory1},
		"redis":  {New(stores.Open(t, server), memory.New(), Behavior{}), New(stores.Open(t, server), memory.New(), Behavior{})},
	} {
		t.Run(name, func(t *testing.T) {
			var queues []*Queue
			for _, node := range nodes {
				queues = append(queues, NewQueue(node, waiting.Environment{}))
			}
			running, handedOn := new(peak), atomic.Int64{}
			storetest.InParallel(120, func(i int) {
				r := waits(policy, int64(1+i%3))
				if i%2 == 0 {
					r.Order = waiting.ByValue(uint64(i % 8))
				}
				place, err := queues[i%len(queues)].Join(r).Wait(t.Context())
				if err != nil {
					t.Errorf("request %d gets no place: %v", i, err)
					return
				}
				units := int64(place.Held.Check.State.RunningUnits)
				assert.ErrorIf(t, units != r.Weight || place.Held.Undecided != nil, "a request of %d has %+v", r.Weight, place.Held)
				if place.HandedOn {
					handedOn.Add(1)
				}
				running.add(units)
				<-time.After(time.Duration(i%4) * time.Millisecond)
				running.add(-units)
				place.End()
			})
			assert.ErrorIf(t, running.most > 5 || running.now != 0, "up to %d units ran at once, %d are left", running.most, running.now)
			assert.ErrorIf(t, handedOn.Load() == 0, "no place was handed on")
			for i, node := range nodes {
				waiting := queues[i].ByPolicy()["running"]
				assert.ErrorIf(t, node.Running("running") != 0 || waiting.Count != 0, "%d run, %+v wait", node.Running("running"), waiting)
				if node.shared != nil {
					stores.WaitCounted(t, node.shared, policy, 0)
				}
			}
		})
	}
}

// TestQueue_outage has requests wait while Redis does not answer, by each mode.
func TestQueue_outage(t *testing.T) {
	t.Parallel()
	client := assert.NoError(dial.New(dial.Connection{Addresses: []string{"127.0.0.1:1"}, Timeout: 50 * time.Millisecond}))(t)
	shared := redis.New(client, redis.Setup{})
	t.Cleanup(func() { _ = shared.Close() })
	for mode, test := range map[limiter.FailMode]struct {
		starts int
		source limiter.Source
		err    error
	}{
		limiter.FailLocal:  {2, limiter.SourceFallback, nil},
		limiter.FailOpen:   {4, limiter.SourceRedis, limiter.ErrUndecided},
		limiter.FailClosed: {0, "", nil},
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			node := New(shared, memory.New(), Behavior{})
			q, r := NewQueue(node, waiting.Environment{}), waits(waitingPolicy(t, 2), 1)
			r.FailMode, r.Key = mode, limiter.EncodeKey(string(mode))
			var tickets []*waiting.Ticket[RunningUnits]
			for i := range 4 {
				if i == test.starts {
					r.Longest = 300 * time.Millisecond // of those that wait in vain
				}
				tickets = append(tickets, q.Join(r))
			}
			var places []*WaitingPlace
			for _, ticket := range tickets {
				place, err := ticket.Wait(t.Context())
				if err != nil {
					assert.ErrorIf(t, !errors.Is(err, waiting.ErrTimeout), "a request ends with %v", err)
					continue
				}
				places = append(places, place)
				assert.ErrorIf(t, place.Held.Source != test.source || !errors.Is(place.Held.Undecided, test.err), "a place: %+v", place.Held)
			}
			assert.Equal(t, len(places), test.starts, "requests that start")
			assert.Equal(t, node.Running("running"), int64(test.starts), "units that run")
			for _, place := range places {
				place.End()
			}
			assert.Equal(t, node.Running("running"), 0, "units that run afterwards")
		})
	}
}

// TestStore_DecideTurn has Redis tell of turns what the queue needs, and nothing of them in results.
func TestStore_DecideTurn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	policy := waitingPolicy(t, 1)
	ask := func(q *Queue) *waiting.Ticket[RunningUnits] { return q.Join(waits(policy, 1)) }
	a, b := New(stores.Open(t, server), memory.New(), Behavior{}), New(stores.Open(t, server), memory.New(), Behavior{})
	onA, onB := NewQueue(a, waiting.Environment{}), NewQueue(b, waiting.Environment{})
	first := assert.NoError(ask(onA).Wait(t.Context()))(t)
	assert.Equal(t, first.Held.Check.Result, limiter.Result{ResetAfter: time.Second}, "the result of the first")
	second := ask(onB)
	assert.Retry(t, "the second node has a claim", func() (again bool, seen any) {
		claim := server.Client(t).HGet(t.Context(), "rl:{k}:"+policy.ID, "next").Val()
		return claim == "", strconv.Quote(claim)
	})
	third := ask(onA) // later than the claim, but within its slack
	first.End()
	places := make(chan *WaitingPlace, 2)
	for _, ticket := range []*waiting.Ticket[RunningUnits]{second, third} {
		go func() {
			place, err := ticket.Wait(t.Context())
			assert.ErrorIf(t, err != nil, "a request ends with %v", err)
			places <- place
		}()
	}
	for range 2 {
		place := <-places
		assert.FatalIf(t, place == nil, "a request has no place")
		assert.ErrorIf(t, place.Held.Check.Result.Delay != 0, "the result shows a turn: %+v", place.Held.Check.Result)
		place.End()
	}
	stores.WaitCounted(t, a.shared, policy, 0)
}

// awaitAsks waits until the nodes have asked for places of the key k, and got answers, since now.
func awaitAsks(t *testing.T, server *redistest.Server, p *limiter.Policy) {
	t.Helper()
	claim := func() string { return server.Client(t).HGet(t.Context(), "rl:{k}:"+p.ID, "next").Val() }
	for range 2 { // asks: one leaves after the answer to the one before
		before := claim()
		assert.Retry(t, "a node asks", func() (again bool, seen any) {
			now := claim()
			return now == before || now == "", strconv.Quote(now)
		})
	}
}

// TestQueue_above has more run than the limit, after an outage: no place goes on until there are fewer.
func TestQueue_above(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	policy := waitingPolicy(t, 2)
	a, b := New(stores.Open(t, server), memory.New(), Behavior{}), New(stores.Open(t, server), memory.New(), Behavior{})
	q := NewQueue(a, waiting.Environment{})
	var places []*WaitingPlace
	for range 2 {
		places = append(places, assert.NoError(q.Join(waits(policy, 1)).Wait(t.Context()))(t))
	}
	third := q.Join(waits(policy, 1))
	others := []limiter.Check{{Policy: policy, Key: limiter.EncodeKey("k"), State: limiter.CheckState{RunningUnits: 1}}}
	b.shared.LetRun(others)
	assert.Retry(t, "Redis counts three", func() (again bool, seen any) {
		head := server.Client(t).HGet(t.Context(), "rl:{k}:"+policy.ID, "all").Val()
		return len(head) != 40 || redis.Double(head, 0) != 3, strconv.Quote(head)
	})
	awaitAsks(t, server, policy)
	places[0].End()
	awaitAsks(t, server, policy)
	assert.ErrorIf(t, third.HasOutcomeWithin(time.Millisecond), "a third request starts while two run")
	places[1].End()
	place := assert.NoError(third.Wait(t.Context()))(t)
	place.End()
	b.shared.EndRunning(others)
	stores.WaitCounted(t, a.shared, policy, 0)
}

// TestQueue_forgotten has Redis lose its data: both nodes tell what they run before a request starts that waits. A node
// waits for what others tell for a bounded time, which the other one may miss where the processor is busy.
func TestQueue_forgotten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for range 5 {
		stalls := redistest.WatchStalls(t, server)
		early := startedAfterLoss(t, server)
		if early == 0 {
			return
		}
		longest := stalls().Longest()
		assert.FatalIf(t, longest < 100*time.Millisecond, "%d requests start beside four that run, on a machine that stalled for %v", early, longest)
	}
	t.Skip("this machine has no time to measure in")
}

// startedAfterLoss has four requests wait behind four that run, on two nodes, and Redis lose its data. It returns how many
// of them start before one ends.
func startedAfterLoss(t *testing.T, server *redistest.Server) (early int) {
	t.Helper()
	policy := waitingPolicy(t, 4)
	a, b := New(stores.Open(t, server), memory.New(), Behavior{}), New(stores.Open(t, server), memory.New(), Behavior{})
	var places []*WaitingPlace
	var queued []*waiting.Ticket[RunningUnits]
	queues := []*Queue{NewQueue(a, waiting.Environment{}), NewQueue(b, waiting.Environment{})}
	for i := range 4 {
		places = append(places, assert.NoError(queues[i%2].Join(waits(policy, 1)).Wait(t.Context()))(t))
	}
	for i := range 4 {
		queued = append(queued, queues[i%2].Join(waits(policy, 1)))
	}
	awaitAsks(t, server, policy)
	assert.Must(t, server.Client(t).FlushAll(t.Context()).Err())
	stores.WaitCounted(t, a.shared, policy, 4)
	awaitAsks(t, server, policy)
	for _, ticket := range queued {
		if ticket.HasOutcomeWithin(time.Millisecond) {
			early++
		}
	}
	for _, place := range places {
		place.End()
	}
	for _, ticket := range queued {
		assert.NoError(ticket.Wait(t.Context()))(t).End()
	}
	stores.WaitCounted(t, a.shared, policy, 0)
	return early
}
