package failover

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// truth returns a store whose denials a cache repeats.
func truth() *storetest.Candidate {
	now := new(int64)
	return &storetest.Candidate{Store: memory.NewOnClock(func() int64 { return *now }), SetClock: func(micros int64) { *now = micros }}
}

// TestDenyCache_deny_like_the_store plays traces through a cache in front of a store that other
// nodes load too: what the cache denies, the store denies at that instant.
func TestDenyCache_deny_like_the_store(t *testing.T) {
	t.Parallel()
	denials := 0
	for seed, play := range assert.Plays(t, 30, 300) {
		for _, p := range storetest.TracePolicies(t) {
			tr := &storetest.Trace{Random: rand.New(rand.NewPCG(seed, 5)), Policies: []*limiter.Policy{p}, Now: storetest.Epoch, Play: play}
			s := truth()
			cache := newCache(time.Second)
			for range 80 {
				before := tr.Now
				tr.Step()
				tr.Now = max(before, tr.Now) // one steady clock
				if tr.Random.IntN(3) == 0 {
					s.Play(t, tr.Now, p, 1+tr.Random.Int64N(p.Capacity())) // another node's request
				}
				weight := 1 + tr.Random.Int64N(p.Capacity()+1)
				reserve := tr.Reserve(p)
				tr.Note("ask", p, weight, reserve)
				checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Reserve: reserve}}
				cached := cache.deny(checks, clock.MomentOf(time.UnixMicro(tr.Now))).denies
				fromCache := checks[0].Result
				want := s.PlayLeaving(t, tr.Now, p, weight, reserve)
				if cached {
					denials++
					assert.FatalIf(t, want.Passes() || (fromCache.RetryAfter > want.RetryAfter && want.RetryAfter != limiter.Never),
						"%v, weight %d, %d left: the cache says %+v, the store %+v", p.Settings, weight, reserve, fromCache, want)
				} else {
					checks[0].Result = want
					cache.learn(checks, clock.MomentOf(time.UnixMicro(tr.Now)))
				}
				tr.Learn([]limiter.Check{{Result: want}})
			}
		}
	}
	assert.ErrorIf(t, assert.AllSeeds() && denials < 10_000, "the cache denied only %d times", denials)
}

// TestDenyCache_deny_weights has one client send several weights in turn. For as long as none
// passes, the cache answers like the store, for each weight.
func TestDenyCache_deny_weights(t *testing.T) {
	t.Parallel()
	repeated := 0
	for seed, play := range assert.Plays(t, 20, 200) {
		for _, p := range storetest.TracePolicies(t) {
			random := rand.New(rand.NewPCG(seed, 6))
			s, cache, now := truth(), newCache(time.Second), storetest.Epoch
			for range 60 {
				now += random.Int64N(100) * p.Params.Tick
				weight := []int64{1, 2, p.Capacity() - 1, p.Capacity(), p.Capacity() + 1, 1 + random.Int64N(p.Capacity())}[random.IntN(6)]
				reserve := []int64{0, 0, 1, p.MostReserve()}[random.IntN(4)]
				play.Step("epoch%+d ask %s: weight %d, %d left", now-storetest.Epoch, p.Name(), weight, reserve)
				checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: max(1, weight), Reserve: reserve}}
				cached := cache.deny(checks, clock.MomentOf(time.UnixMicro(now))).denies
				fromCache := checks[0].Result
				want := s.PlayLeaving(t, now, p, checks[0].Weight, reserve)
				switch {
				case !cached:
					checks[0].Result = want
					cache.learn(checks, clock.MomentOf(time.UnixMicro(now)))
					if want.Passes() {
						cache = newCache(time.Second) // the others wait longer from now on
					}
				case fromCache.Banned && want.Banned && fromCache.RetryAfter <= want.RetryAfter:
					repeated++ // of a weight that was not sent since: the ban alone
				case want.Passes() || fromCache.RetryAfter != want.RetryAfter && p.Params.Tick == 1:
					t.Fatalf("%v, weight %d, %d left: the cache says %+v, the store %+v", p.Settings, checks[0].Weight, reserve, fromCache, want)
				default:
					repeated++
				}
			}
		}
	}
	assert.ErrorIf(t, assert.AllSeeds() && repeated < 10_000, "the cache denied only %d times", repeated)
}

// TestDenyCache_early has requests that saw the clock before a denial was asked for: they wait no longer than it says.
func TestDenyCache_early(t *testing.T) {
	t.Parallel()
	p, cache, now := storetest.DayPolicy(t, "early", limiter.GCRA, 10), newCache(time.Second), clock.MomentOf(time.Unix(1_000, 0))
	check := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1, Result: limiter.Result{RetryAfter: time.Minute}}}
	cache.learn(check, now)
	for early := range 3 {
		assert.ErrorIf(t, !cache.deny(check, now.Add(-time.Duration(early)*time.Millisecond)).denies || check[0].Result.RetryAfter != time.Minute,
			"%d ms early: %+v", early, check[0].Result)
	}
}

func TestDenyCache_bounded(t *testing.T) {
	t.Parallel()
	p := storetest.DayPolicy(t, "bounded", limiter.GCRA, 1)
	cache := newCache(time.Second)
	now := clock.MomentOf(time.Unix(1_000, 0))
	for i := range 2 * limiter.ShardCount * denyShardSize {
		cache.learn([]limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 1, Result: limiter.Result{RetryAfter: time.Hour}}}, now)
	}
	total := 0
	for i := range cache.Shards {
		total += len(cache.Shards[i].Denials)
	}
	assert.ErrorIf(t, total > limiter.ShardCount*denyShardSize || total < limiter.ShardCount*denyShardSize/2,
		"%d denials are kept, want about %d", total, limiter.ShardCount*denyShardSize)
	now = now.Add(time.Second)
	if cache.deny([]limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(2*limiter.ShardCount*denyShardSize - 1)), Weight: 1}}, now).denies {
		t.Error("a denial is used longer than its age")
	}
}

// TestDenyCache_quiet lets denials expire that no request asks for again.
func TestDenyCache_quiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCache(time.Second)
		c.startSweeps()
		for i := range 1000 {
			c.learn([]limiter.Check{{Policy: storetest.DayPolicy(t, "api", limiter.FixedWindow, 1), Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 1, Result: limiter.Result{RetryAfter: time.Hour}}}, clock.Now())
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		for i := range c.Shards {
			left := c.Shards[i].len()
			assert.FatalIf(t, left > 0, "%d denials are left", left)
		}
		assert.ErrorIf(t, c.Sweeps.IsSet(), "the timer is set")
	})
}
