package failover

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

func TestFailover_Decide_deny_cache(t *testing.T) {
	server := redistest.Shared(t)
	r := openRedis(t, server, time.Second)
	f := New(r, memory.New(), Options{DenyAge: time.Second})
	p := storetest.DayPolicy(t, "repeat", limiter.GCRA, 2)
	ask := func(weight int64, want limiter.Source, passes bool) {
		t.Helper()
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Peek: weight == 0}}
		source, err := f.Decide(context.Background(), checks)
		if err != nil || source != want || checks[0].Result.Passes() != passes {
			t.Errorf("weight %d: %s %+v %v; want %s, passes %v", weight, source, checks[0].Result, err, want, passes)
		}
	}
	ask(1, limiter.SourceRedis, true)
	ask(2, limiter.SourceRedis, false)
	ask(2, limiter.SourceDenyCache, false)
	ask(1, limiter.SourceRedis, true) // a smaller weight is sent
	ask(1, limiter.SourceRedis, false)
	ask(1, limiter.SourceDenyCache, false)
	if found, err := f.Reset(context.Background(), p, limiter.EncodeKey("k")); found.Shared != 1 || err != nil {
		t.Errorf("reset: %v %v", found, err)
	}
	ask(1, limiter.SourceRedis, true)
	if found, err := f.Reset(context.Background(), p, limiter.EncodeKey("unknown")); found.Shared != 0 || err != nil {
		t.Errorf("reset of no state: %v %v", found, err)
	}
	ask(2, limiter.SourceRedis, false)
	ask(2, limiter.SourceDenyCache, false)
	if _, err := r.Reset(context.Background(), p, limiter.EncodeKey("k")); err != nil { // as another node would
		t.Error(err)
	}
	redistest.WaitFor(t, "the reset elsewhere is felt", func() error {
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 2}}
		if source, err := f.Decide(context.Background(), checks); source != limiter.SourceRedis || err != nil || !checks[0].Result.Passes() {
			return fmt.Errorf("%s %+v: %w", source, checks[0].Result, err)
		}
		return nil
	})
}

// TestDenyRefresher_batches floods for longer than a denial may be repeated.
func TestDenyRefresher_batches(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	r := openRedis(t, server, time.Second)
	const age, keys = 500 * time.Millisecond, 100
	f := New(r, memory.New(), Options{DenyAge: age})
	p := storetest.DayPolicy(t, "flood", limiter.GCRA, 1)
	ask := func(key int) limiter.Source {
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(key)), Weight: 1}}
		source, err := f.Decide(context.Background(), checks)
		noError(t, err)
		return source
	}
	for key := range keys {
		ask(key)
		ask(key) // denied
	}
	// On a busy machine some refreshes come too late.
	redistest.WaitFor(t, "few requests wait, and renewals leave in few scripts", func() error {
		client.ConfigResetStat(context.Background())
		asked, redis := 0, 0
		const ages = 5
		for began := time.Now(); time.Since(began) < ages*age; {
			for key := range keys {
				asked++
				if ask(key) == limiter.SourceRedis {
					redis++
				}
			}
			pause()
		}
		scripts := int(infoSum(t, client, "commandstats", `cmdstat_evalsha:calls=(\d+)`))
		// Without refreshes each key is sent once an age.
		if most := ages * keys / 2; redis > most || scripts == 0 || scripts > most {
			return fmt.Errorf("of %d requests %d waited for Redis, which ran %d scripts", asked, redis, scripts)
		}
		return nil
	})
}
