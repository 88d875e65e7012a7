package failover

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// TestResetAll_hung_master: the other masters are reset all the same.
func TestResetAll_hung_master(t *testing.T) {
	t.Parallel()
	r, masters := stores.OpenCluster(t)
	local := memory.New()
	f := New(stores.OpenClusterWithin(t, masters, time.Second), local, Behavior{})
	p := storetest.DayPolicy(t, "partly", limiter.GCRA, 5)
	redistest.Tolerate(t, masters)
	reset := func() (found ResetCount, err error) {
		storetest.Fill(t, r, p, 300)
		storetest.Fill(t, local, p, 300)
		masters[1].Pause(t)
		defer masters[1].Resume(t)
		return f.ResetAll(context.Background(), "partly")
	}
	assert.Retry(t, "the other masters answer in time", func() (again bool, seen any) {
		found, err := reset()
		assert.FatalIf(t, !errors.Is(err, limiter.ErrUndecided) || found.Shared >= 300 || found.Here != 300,
			"forgot %+v, %v; want about 200 of 300 on the cluster, and all here", found, err)
		return found.Shared < 100, found
	})
}

// TestReset_meanwhile decides requests while a quota is reset. What Redis answered before it forgot the quota is not
// kept for an outage.
func TestReset_meanwhile(t *testing.T) {
	t.Parallel()
	p, key := storetest.DayPolicy(t, "meanwhile", limiter.FixedWindow, 5), limiter.EncodeKey("k")
	for name, reset := range map[string]func(f *Store) (ResetCount, error){
		"key":    func(f *Store) (ResetCount, error) { return f.Reset(context.Background(), p, key) },
		"policy": func(f *Store) (ResetCount, error) { return f.ResetAll(context.Background(), p.Name()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := stores.Open(t, redistest.Shared(t))
			f := New(r, memory.New(), Behavior{})
			storetest.Decide(t, f, limiter.Check{Policy: p, Key: key, Weight: 1})
			asked := 0
			r.Client().AddHook(redistest.BeforeCommand{Name: "unlink", Do: func() {
				asked++
				storetest.Decide(t, f, limiter.Check{Policy: p, Key: key, Weight: 1})
			}})
			if found, err := reset(f); found != (ResetCount{Shared: 1, Here: 1}) || err != nil || asked == 0 {
				t.Fatalf("found %+v, %v, after %d requests meanwhile", found, err, asked)
			}
			assert.ErrorIf(t, f.HasLocalState(p, key), "this process goes on from the count that was reset")
		})
	}
}
