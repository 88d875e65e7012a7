package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/deny"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/shards"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

// TestDenyCache_deny_like_the_store plays traces through a cache in front of a store that other
// nodes load too: what the cache denies, the store denies at that instant.
func TestDenyCache_deny_like_the_store(t *testing.T) {
	t.Parallel()
	denials := 0
	for seed := range redistest.Rounds[uint64](30, 300) {
		for _, p := range tracePolicies(t) {
			tr := &trace{random: rand.New(rand.NewPCG(seed, 5)), policies: []*limiter.Policy{p}, now: storetest.Epoch}
			s := memoryStore()
			cache := deny.NewCache(time.Second)
			for range 80 {
				before := tr.now
				tr.step()
				tr.now = max(before, tr.now) // one steady clock
				if tr.random.IntN(3) == 0 {
					play(t, s, tr.now, p, 1+tr.random.Int64N(p.Capacity())) // another node's request
				}
				weight := 1 + tr.random.Int64N(p.Capacity()+1)
				reserve := tr.reserve(p)
				checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Reserve: reserve}}
				cached := cache.Deny(checks, clock.MomentOf(time.UnixMicro(tr.now))).Denies()
				fromCache := checks[0].Result
				truth := playLeaving(t, s, tr.now, p, weight, reserve)
				if cached {
					denials++
					if truth.Passes() || (fromCache.RetryAfter > truth.RetryAfter && truth.RetryAfter != limiter.Never) {
						t.Fatalf("%v, weight %d, %d left: the cache says %+v, the store %+v", p.Settings(), weight, reserve, fromCache, truth)
					}
				} else {
					checks[0].Result = truth
					cache.Learn(checks, clock.MomentOf(time.UnixMicro(tr.now)))
				}
				tr.learn([]limiter.Check{{Result: truth}})
			}
		}
	}
	if denials < 10_000 {
		t.Errorf("the cache denied only %d times", denials)
	}
}

// TestDenyCache_deny_weights has one client send several weights in turn. For as long as none
// passes, the cache answers like the store, for each weight.
func TestDenyCache_deny_weights(t *testing.T) {
	t.Parallel()
	repeated := 0
	for seed := range redistest.Rounds[uint64](20, 200) {
		for _, p := range tracePolicies(t) {
			random := rand.New(rand.NewPCG(seed, 6))
			s, cache, now := memoryStore(), deny.NewCache(time.Second), storetest.Epoch
			for range 60 {
				now += random.Int64N(100) * p.Rule().Params.Tick
				weight := []int64{1, 2, p.Capacity() - 1, p.Capacity(), p.Capacity() + 1, 1 + random.Int64N(p.Capacity())}[random.IntN(6)]
				reserve := []int64{0, 0, 1, p.MostReserve()}[random.IntN(4)]
				checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: max(1, weight), Reserve: reserve}}
				cached := cache.Deny(checks, clock.MomentOf(time.UnixMicro(now))).Denies()
				fromCache := checks[0].Result
				truth := playLeaving(t, s, now, p, checks[0].Weight, reserve)
				switch {
				case !cached:
					checks[0].Result = truth
					cache.Learn(checks, clock.MomentOf(time.UnixMicro(now)))
					if truth.Passes() {
						cache = deny.NewCache(time.Second) // the others wait longer from now on
					}
				case fromCache.Banned && truth.Banned && fromCache.RetryAfter <= truth.RetryAfter:
					repeated++ // of a weight that was not sent since: the ban alone
				case truth.Passes() || fromCache.RetryAfter != truth.RetryAfter && p.Rule().Params.Tick == 1:
					t.Fatalf("%v, weight %d, %d left: the cache says %+v, the store %+v", p.Settings(), checks[0].Weight, reserve, fromCache, truth)
				default:
					repeated++
				}
			}
		}
	}
	if repeated < 10_000 {
		t.Errorf("the cache denied only %d times", repeated)
	}
}

// TestDenyCache_weights_apart has a client alternate weights: each is sent to Redis once.
func TestDenyCache_weights_apart(t *testing.T) {
	t.Parallel()
	p, cache, now := storetest.DayPolicy(t, "weights", limiter.GCRA, 10), deny.NewCache(time.Second), clock.Now()
	waits := map[int64]time.Duration{1: 6 * time.Second, 10: 59 * time.Second, 11: limiter.Never}
	for weight, wait := range waits {
		cache.Learn([]limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Result: limiter.Result{RetryAfter: wait}}}, now)
	}
	for range 3 {
		for weight, wait := range waits {
			checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Peek: weight == 0}}
			if !cache.Deny(checks, now).Denies() || checks[0].Result.RetryAfter != wait {
				t.Errorf("weight %d: %+v, want retry after %v", weight, checks[0].Result, wait)
			}
		}
	}
	if cache.Deny([]limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 12}}, now).Denies() {
		t.Error("a weight that was never asked about is answered")
	}
	cache.Forget(p.ID(), "k")
	for weight := range waits {
		if cache.Deny([]limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Peek: weight == 0}}, now).Denies() {
			t.Errorf("weight %d is denied after a reset", weight)
		}
	}
}

func TestDenyCache_bounded(t *testing.T) {
	t.Parallel()
	p := storetest.DayPolicy(t, "bounded", limiter.GCRA, 1)
	cache := deny.NewCache(time.Second)
	now := clock.Now()
	for i := range 2 * shards.Count * deny.DenyShardSize {
		cache.Learn([]limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 1, Result: limiter.Result{RetryAfter: time.Hour}}}, now)
	}
	total := 0
	for i := range cache.Shards {
		total += len(cache.Shards[i].Denials)
	}
	if total > shards.Count*deny.DenyShardSize || total < shards.Count*deny.DenyShardSize/2 {
		t.Errorf("%d denials are kept, want about %d", total, shards.Count*deny.DenyShardSize)
	}
	now = now.Add(time.Second)
	if cache.Deny([]limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(2*shards.Count*deny.DenyShardSize - 1)), Weight: 1}}, now).Denies() {
		t.Error("a denial is used longer than its age")
	}
}

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
		if err != nil {
			t.Fatal(err)
		}
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
		stats := client.Info(context.Background(), "commandstats").Val()
		var scripts int
		if found := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindStringSubmatch(stats); found != nil {
			scripts, _ = strconv.Atoi(found[1]) // digits only
		}
		// Without refreshes each key is sent once an age.
		if most := ages * keys / 2; redis > most || scripts == 0 || scripts > most {
			return fmt.Errorf("of %d requests %d waited for Redis, which ran %d scripts", asked, redis, scripts)
		}
		return nil
	})
}
