package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// TestFailover_Decide plays which part of the store decides, and what an outage goes on from.
func TestFailover_Decide(t *testing.T) {
	t.Parallel()
	day := func(limit int64) []*limiter.Policy {
		return []*limiter.Policy{storetest.DayPolicy(t, "guarded", limiter.GCRA, limit)}
	}
	scenes := []*scene{
		{name: "outage", policies: day(5), steps: "a take 1 by redis left 4 kill take 1 by fallback take 1 by fallback take 1 by fallback take 1 by fallback " +
			"denied 1 by fallback denied 1 by fallback open 1 closed 1 reports outage:refused start until any 1 redis reports outage:refused,recovery"},
		// Each weight is sent once.
		{name: "deny cache", policies: day(2), options: Behavior{DenyAge: MaxDenyAge}, recalls: true, steps: "a take 1 by redis denied 2 by redis denied 2 by deny_cache take 1 by redis denied 1 by redis never 3 by redis denied 1 by deny_cache " +
			"never 3 by deny_cache reset 1 take 1 by redis key unknown reset 0 key k denied 2 by redis denied 2 by deny_cache"},
		{name: "a reset elsewhere", policies: day(2), options: Behavior{DenyAge: 100 * time.Millisecond}, steps: "a take 1 until denied 2 deny_cache b reset 1 a until take 2 redis"},
	}
	for _, algorithm := range limiter.Algorithms() {
		p := storetest.DayPolicy(t, "whole", algorithm, 10)
		scenes = append(scenes, &scene{name: "a unit at least by " + algorithm, policies: []*limiter.Policy{p}, options: Behavior{LocalFraction: 0.01}, steps: "a away take 1 by fallback denied 1 by fallback"})
	}
	for _, node := range []string{"a", "m"} {
		scenes = append(scenes, &scene{name: "reset by " + node, policies: append(day(5), storetest.DayPolicy(t, "other", limiter.SlidingWindowLog, 5)), steps: node + " key a take 1 key b take 1 of 0 resetall 2 peek left 5 of 1 peek left 4"})
	}
	// The override of a client ends in an outage: what was admitted by the raised limit is repaid.
	for _, algorithm := range []string{limiter.FixedWindow, limiter.SlidingWindowCounter, limiter.SlidingWindowLog, limiter.GCRA} {
		p := storetest.NewPolicy(t, limiter.Settings{Name: "settled", Algorithm: algorithm, Limit: 5, Window: 30 * 24 * time.Hour})
		scenes = append(scenes, &scene{name: "override by " + algorithm, policies: []*limiter.Policy{p, raised(t, p)}, options: Behavior{DenyAge: time.Second}, steps: "a of 1 take 1 take 1 take 1 pause key other fails key k " +
			strings.Repeat("take 1 by fallback ", 20) + "of 0 denied 1 by fallback resume until denied 1 redis of 1 owes 27"})
	}
	playScenes(t, scenes)
}

func TestFailover_Decide_hung_Redis(t *testing.T) {
	server := redistest.Start(t)
	f := New(stores.OpenWithin(t, server, 500*time.Millisecond, limiter.KeyFormat{Prefix: "rl"}), memory.New(), Behavior{})
	p := storetest.DayPolicy(t, "hung", limiter.GCRA, 1_000)
	ask := func() error {
		_, err := f.DecideIn(context.Background(), limiter.FailClosed, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}})
		return err
	}
	// A first request connects and has its script made, for which a busy machine may need more than the timeout.
	assert.WaitFor(t, "Redis answers in time", ask)
	server.Pause(t)
	defer server.Resume(t)
	for range redis.FailuresInARow {
		err := ask()
		assert.ErrorIf(t, limiter.Kind(err) != "timeout", "%v of kind %s", err, limiter.Kind(err))
	}
	for range 200 {
		err := ask()
		assert.FatalIf(t, !errors.Is(err, limiter.ErrOutage), "a request waited for a server that hangs: %v", err)
	}
}

func TestFailover_Decide_canceled(t *testing.T) {
	server := redistest.Start(t)
	var reported stores.Reports
	r := stores.Open(t, server)
	reported.Listen(r)
	f := New(r, memory.New(), Behavior{})
	p := storetest.DayPolicy(t, "left", limiter.GCRA, 1_000)
	server.Pause(t)
	defer server.Resume(t)
	for i := range 2 * redis.FailuresInARow {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		want := context.DeadlineExceeded
		if i%2 == 0 {
			cancel()
			ctx, cancel = context.WithCancel(context.Background())
			time.AfterFunc(5*time.Millisecond, cancel)
			want = context.Canceled
		}
		_, err := f.Decide(ctx, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}})
		cancel()
		assert.ErrorIf(t, !errors.Is(err, want) || errors.Is(err, limiter.ErrUndecided), "error %v, want %v", err, want)
	}
	failing, _ := f.Failing()
	assert.ErrorIf(t, failing || reported.String() != "", "clients that left opened the breaker: %v", &reported)
}

// TestFailover_scaleDown has a quarter of a limit of 8 enforced in an outage.
func TestFailover_scaleDown(t *testing.T) {
	t.Parallel()
	for _, algorithm := range limiter.Algorithms() {
		p := storetest.DayPolicy(t, "part", algorithm, 8)
		for weight, want := range map[int64]bool{1: true, 2: true, 8: true, 9: false} {
			f := New(new(redis.Store), memory.New(), Behavior{LocalFraction: 0.25, ForgiveOutages: true})
			checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: weight, Peek: weight == 0}}
			source, err := f.Fallback(limiter.FailLocal, checks, limiter.ErrAlreadyTimedOut)
			assert.ErrorIf(t, err != nil || source != limiter.SourceFallback || checks[0].Result.Passes() != want,
				"%s: weight %d: %s, %+v, %v; want it to pass: %v", algorithm, weight, source, checks[0].Result, err, want)
			assert.ErrorIf(t, !want && checks[0].Result.RetryAfter != limiter.Never,
				"%s: weight %d may come back after %v, and never can", algorithm, weight, checks[0].Result.RetryAfter)
		}
	}
}

// TestDenyRefresher_batches floods for longer than a denial may be repeated.
func TestDenyRefresher_batches(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	r := stores.Open(t, server)
	const age, keys = 500 * time.Millisecond, 100
	f := New(r, memory.New(), Behavior{DenyAge: age})
	p := storetest.DayPolicy(t, "flood", limiter.GCRA, 1)
	ask := func(key int) limiter.Source {
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(key)), Weight: 1}}
		return assert.NoError(f.Decide(context.Background(), checks))(t)
	}
	for key := range keys {
		ask(key)
		ask(key) // denied
	}
	// On a busy machine some refreshes come too late.
	assert.WaitFor(t, "few requests wait, and renewals leave in few scripts", func() error {
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
		scripts := int(redistest.InfoSum(t, client, "commandstats", `cmdstat_evalsha:calls=(\d+)`))
		// Without refreshes each key is sent once an age.
		if most := ages * keys / 2; redis > most || scripts == 0 || scripts > most {
			return fmt.Errorf("of %d requests %d waited for Redis, which ran %d scripts", asked, redis, scripts)
		}
		return nil
	})
}

// TestRedis_Close_last_use closes a store that a request still needs for a refund: it decides and
// refunds until the request ends, and nothing of that is lost.
func TestRedis_Close_last_use(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	store := stores.OpenWithin(t, server, stores.Patience, limiter.KeyFormat{Prefix: "rl"})
	f := New(store, memory.New(), Behavior{})
	p := storetest.RefundingPolicy(t, "closing", limiter.GCRA, 100)
	check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 40, Refundable: true}
	assert.FatalIf(t, !f.retain(), "the store is closed")
	reserved := storetest.Decide(t, store, check)
	assert.Must(t, store.Close())
	left := storetest.Decide(t, store, check)[0].Result.Remaining
	assert.ErrorIf(t, left != 20, "%d units remain, want 20", left)
	refundAll(f, reserved, limiter.SourceRedis)
	chargeAll(f, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 7}}, limiter.SourceRedis)
	f.release()
	<-store.Uses.Closed
	if _, err := store.Decide(context.Background(), []limiter.Check{check}); !errors.Is(err, limiter.ErrClosed) || !errors.Is(err, limiter.ErrUndecided) {
		t.Errorf("a decision after the end: %v", err)
	}
	assert.ErrorIf(t, f.retain(), "a closed store is kept open")
	after := storetest.Decide(t, stores.Open(t, server), limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true})
	left = after[0].Result.Remaining
	assert.ErrorIf(t, left != 53, "%d units remain, want 53", left)
}
