package failover

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// memoryFailover returns a failover without a shared store, and what it decides by.
func memoryFailover() (*Store, *memory.Store) {
	m := memory.New()
	return New(nil, m, Behavior{}), m
}

func decideRunning(t testing.TB, f *Store, p *limiter.Policy, key string, weight int64) []limiter.Check {
	t.Helper()
	return storetest.Decide(t, f, limiter.Check{Policy: p, Key: limiter.EncodeKey(key), Weight: weight})
}

// TestMemory_concurrency_survives drops what can be dropped: requests that run still do.
func TestMemory_concurrency_survives(t *testing.T) {
	clock := int64(0)
	m := memory.NewOnClock(func() int64 { return clock })
	m.Limit(1, nil)
	f := New(nil, m, Behavior{})
	p := storetest.ConcurrencyPolicy(t, 1)
	var running [][]limiter.Check
	for _, key := range []string{"a", "b", "c"} {
		running = append(running, decideRunning(t, f, p, key, 1))
	}
	clock += int64(48 * time.Hour / time.Microsecond)
	for i := range 100 {
		storetest.Decide(t, m, limiter.Check{Policy: storetest.DayPolicy(t, "other", limiter.FixedWindow, 1), Key: limiter.EncodeKey(string(rune('a' + i%26)))})
	}
	m.Prune()
	assert.Equal(t, m.Reset(p, limiter.EncodeKey("a"))+m.ResetAll("running"), 0, "what a reset found")
	for i, key := range []string{"a", "b", "c"} {
		assert.ErrorIf(t, decideRunning(t, f, p, key, 1)[0].Result.Passes(), "%s runs a second time", key)
		f.EndRunning(running[i])
		assert.ErrorIf(t, !decideRunning(t, f, p, key, 1)[0].Result.Passes(), "%s is full after its request ended", key)
	}
}

// peak counts what runs at once, from outside.
type peak struct {
	mu        sync.Mutex
	now, most int64
}

func (p *peak) add(units int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now += units
	p.most = max(p.most, p.now)
}

// highest returns the most units so far.
func (p *peak) highest() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

func TestMemory_concurrency_parallel(t *testing.T) {
	f, m := memoryFailover()
	p := storetest.ConcurrencyPolicy(t, 7)
	gauge := new(peak)
	storetest.InParallel(16, func(_ int) {
		for range 2000 {
			checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}
			_, err := f.Decide(context.Background(), checks)
			assert.ErrorIf(t, err != nil, "%v", err)
			if limiter.Allowed(checks) {
				gauge.add(1)
				gauge.add(-1)
				f.EndRunning(checks)
			}
		}
	})
	assert.ErrorIf(t, gauge.most > 7 || f.Running("running") != 0 || m.Len() != 0,
		"up to %d ran at once, %d run now, %d states are kept", gauge.most, f.Running("running"), m.Len())
}

// TestFailover_concurrency plays what counts of requests that run: in process, on Redis, in an outage and after it. What
// was denied is ended too, and returns nothing.
func TestFailover_concurrency(t *testing.T) {
	t.Parallel()
	limit := func(units int64) *limiter.Policy { return storetest.ConcurrencyPolicy(t, units) }
	rate := func(units int64) *limiter.Policy { return storetest.DayPolicy(t, "rate", limiter.FixedWindow, units) }
	own := storetest.NewPolicy(t, limiter.Settings{Name: "own", MaxConcurrent: 1, NodeTimeout: time.Minute})
	const units = "take 3 left 2 denied 3 left 2 key other take 5 key k take 2 runs 10 end 1 end 3 take 5 left 0 never 6"
	playScenes(t, []*scene{
		{name: "in process", policies: []*limiter.Policy{limit(5)}, steps: "m " + units + " states 2"},
		{name: "on Redis", policies: []*limiter.Policy{limit(5)}, steps: "a " + units},
		{name: "beside another policy", policies: []*limiter.Policy{limit(5), rate(2)}, steps: "m take 1 take 1 denied 1 denied 1 of 0 runs 2 peek left 3 end 3 runs 2"},
		{name: "a peek beside a take", policies: []*limiter.Policy{limit(3), rate(2)}, steps: "a of 0 take 2 of 01 beside 1 left 1,1 of 0 runs 2 end 1 counts 0"},
		// Requests from before a reload to Redis count on their node, of which another node knows nothing.
		{name: "reload", policies: []*limiter.Policy{limit(2)}, steps: "m take 1 take 1 a denied 1 end 1 take 1 denied 1 b take 1 denied 1 end 2 a denied 1 end 4 counts 1 take 1 denied 1 end 3 end 5 counts 0"},
		{name: "two nodes", policies: []*limiter.Policy{limit(3)}, steps: "a take 1 by redis b take 2 by redis left 0 a denied 1 by redis left 0 end 2 counts 1 denied 3 left 2 take 2 left 0 end 1 counts 2 end 3 counts 0 runs 0 b runs 0 idle"},
		{name: "outage", policies: []*limiter.Policy{limit(6)}, options: Behavior{LocalFraction: 0.5}, steps: "a take 2 by redis kill denied 2 by fallback take 1 by fallback " +
			"closed 1 open 1 runs 4 end 1 denied 5 by fallback start counts 2 take 4 by redis left 0 end 2 end 4 end 5 counts 0 runs 0"},
		{name: "above the fraction", policies: []*limiter.Policy{limit(20)}, options: Behavior{LocalFraction: 0.1}, steps: "a kill take 7 runs 7 denied 1 end 1 runs 0"},
		{name: "flush", policies: []*limiter.Policy{limit(5)}, steps: "a take 3 flush take 1 by redis left 1 flush end 1 counts 1 end 2"},
		// Redis is asked only where another process could make a difference.
		{name: "full", policies: []*limiter.Policy{limit(2), rate(5)}, steps: "of 0 a take 2 of 10 denied 1 by memory left -1,0 end 1 counts 0 take 1 by redis end 2"},
		{name: "closed", policies: []*limiter.Policy{limit(5)}, steps: "a take 3 close counts 3 end 1 counts 0 gone"},
		// No sum of weights makes the key's state foreign, on which Redis would decide nothing more.
		{name: "heavy in open mode", policies: []*limiter.Policy{limit(6)}, steps: "a kill open 9223372036854775807 open 9223372036854775807 open 9223372036854775807 runs 18 start counts 6 end 1 end 2 end 3 counts 0"},
		// Redis loses what it knows of one of two policies, so that a request is sent twice. The other one counts it once.
		{name: "late check", policies: []*limiter.Policy{limit(5), own}, steps: "of 0 a take 1 of 01 flush take 1 end 2 flush take 1 end 3 flush take 1 end 4 end 1 counts 0"},
	})
}

func TestRedis_concurrency_parallel(t *testing.T) {
	server := redistest.Shared(t)
	const limit, clients, rounds = 10, 32, 200
	p := storetest.ConcurrencyPolicy(t, limit)
	gauge := new(peak)
	finished := make(chan int)
	for range 2 {
		n := New(stores.OpenWithin(t, server, stores.Patience, limiter.KeyFormat{Prefix: "t"}), memory.New(), Behavior{})
		for range clients {
			go func() {
				passed := 0
				for range rounds {
					checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}
					source, err := n.Decide(context.Background(), checks)
					assert.ErrorIf(t, err != nil, "%v", err)
					if limiter.Allowed(checks) {
						assert.ErrorIf(t, source == limiter.SourceMemory,
							"what may only deny let a request through")
						passed++
						gauge.add(1)
						runtime.Gosched()
						gauge.add(-1)
						n.EndRunning(checks)
					}
				}
				finished <- passed
			}()
		}
	}
	passed := 0
	for range 2 * clients {
		passed += <-finished
	}
	assert.ErrorIf(t, gauge.most > limit || passed == 0, "up to %d ran at once, %d passed", gauge.most, passed)
	t.Logf("%d of %d passed, up to %d at once", passed, 2*clients*rounds, gauge.most)
}
