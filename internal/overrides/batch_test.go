package overrides

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// TestEntry_Policy_batch decides requests of clients with different limits at once. Each batch is one run of
// a script.
func TestEntry_Policy_batch(t *testing.T) {
	server := redistest.Start(t)
	client := assert.NoError(dial.New(dial.Connection{Addresses: []string{server.Addr}, Timeout: 10 * time.Second}))(t)
	var batches, sent atomic.Int64
	store := redis.New(client, redis.Setup{OnBatch: func(size int, _ time.Duration) {
		batches.Add(1)
		sent.Add(int64(size))
	}})
	t.Cleanup(func() { _ = store.Close() })
	base := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "api", Limit: 10, Window: time.Minute}))(t)
	l := NewLocal(Hooks{})
	const clients = 256
	for i := range clients {
		put(t, l, l.Target("api", key(strconv.Itoa(i))), Spec{Action: Limit, Limit: int64(100 + i)}, 0)
	}
	assert.NoError(storetest.Allow(t.Context(), store, base, "first"))(t)
	runs := func() int {
		client := server.Client(t)
		sum := func(section, of string) int { return int(redistest.InfoSum(t, client, section, of)) }
		// What Redis did not have yet was no run.
		return sum("commandstats", `cmdstat_eval(?:sha)?:calls=(\d+)`) - sum("errorstats", `errorstat_NOSCRIPT:count=(\d+)`)
	}
	runsBefore, batchesBefore := runs(), batches.Load()
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			policy := find(l, "api", key(strconv.Itoa(i))).Policy(base)
			result, err := storetest.Allow(t.Context(), store, policy, strconv.Itoa(i))
			if err != nil || result.Remaining != int64(99+i) {
				t.Error(fmt.Sprint(i), result, err)
			}
		})
	}
	group.Wait()
	batched := batches.Load() - batchesBefore
	if runs := int64(runs() - runsBefore); runs != batched || batched > clients/2 {
		t.Errorf("%d requests in %d batches were %d runs", sent.Load(), batched, runs)
	}
}

// TestEntry_Policy keeps the variant of a policy, and makes another of another policy of that name.
func TestEntry_Policy(t *testing.T) {
	e := &Entry{Spec: Spec{Action: Limit, Limit: 500}}
	base := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "api", Limit: 10, Window: time.Minute}))(t)
	if v := e.Policy(base); v.Capacity() != 500 || v.ID != base.ID || e.Policy(base) != v {
		t.Errorf("the variant is %v", v)
	}
	e = &Entry{Spec: Spec{Action: Limit, Limit: 1 << 40}}
	if v := e.Policy(base); v != base {
		t.Errorf("an impossible limit makes %v of the policy", v)
	}
}
