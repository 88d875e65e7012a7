package failover

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// TestFailover_restart_far_away restarts a Redis that is far away: soon after it answers again, it decides. It has lost
// the scripts, and a new connection costs several round trips. A busy machine may need another try.
func TestFailover_restart_far_away(t *testing.T) {
	for _, far := range []struct{ roundTrip, soon time.Duration }{
		{40 * time.Millisecond, 500 * time.Millisecond}, {20 * time.Millisecond, 300 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(far.roundTrip), func(t *testing.T) {
			var met bool
			for tries := 0; tries < 4 && !met; tries++ {
				met = restartFarAway(t, far.roundTrip, far.soon)
			}
			assert.ErrorIf(t, !met, "more than 1 %% fall back later than %v after Redis answers", far.soon)
		})
	}
}

// restartFarAway reports whether at most 1 % of the requests of two seconds fall back, which begin some time after a
// restarted Redis answers. It expects that no request brings Redis a script.
func restartFarAway(t *testing.T, roundTrip, soon time.Duration) (met bool) {
	t.Helper()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	proxy.Delay(roundTrip)
	r := openStore(t, dial.Options{Addresses: []string{proxy.Addr}}, redis.Options{KeyFormat: limiter.KeyFormat{Prefix: "rl"}})
	f := New(r, memory.New(), Options{})
	load := newLoad(t, f)
	stop := load.begin()
	assert.Retry(t, "Redis decides", func() (again bool, seen any) {
		decided, _ := load.since(time.Time{})
		return decided < 1000, decided
	})
	server.Kill()
	waitFailing(t, f, true, func() {})
	<-time.After(1300 * time.Millisecond) // between two probes of a second
	server.Run(t)
	answers := time.Now()
	<-time.After(soon + 2*time.Second)
	stop()
	decided, fell := load.since(answers.Add(soon))
	t.Logf("Redis has decided %d requests, %d fell back, the last one %v after Redis answers", decided, fell, load.lastFallback().Sub(answers))
	return fell*100 <= decided+fell
}

// TestFailover_restart_scripts restarts a Redis and asks by the scripts that were in use: it has them from the probe, and
// the connections that were in use, before requests come.
func TestFailover_restart_scripts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := openStore(t, dial.Options{Addresses: []string{server.Addr}, Timeout: patience}, redis.Options{KeyFormat: limiter.KeyFormat{Prefix: "rl"}})
	f := New(r, memory.New(), Options{})
	requests := newLoad(t, f).requests
	ask := func(want limiter.Source) {
		t.Helper()
		for i, checks := range requests {
			for at := range checks {
				checks[at].Key = limiter.EncodeKey("k")
			}
			source, err := f.Decide(t.Context(), checks)
			assert.ErrorIf(t, err != nil || source != want && want != "", "request %d is decided by %s, %v", i, source, err)
		}
	}
	ask(limiter.SourceRedis)
	b := &r.Topology.AnyNode.Batcher
	b.Mu.Lock()
	b.Senders.Peak = 7 // as on a long link
	b.Mu.Unlock()
	server.Kill()
	waitFailing(t, f, true, func() { ask("") })
	server.Run(t)
	waitFailing(t, f, false, func() {})
	assert.ErrorIf(t, r.Client().PoolStats().TotalConns < 7, "%d connections are open, of 7", r.Client().PoolStats().TotalConns)
	ask(limiter.SourceRedis)
	unknown := server.Client(t).Info(t.Context(), "errorstats").Val()
	assert.ErrorIf(t, strings.Contains(unknown, "NOSCRIPT"), "Redis did not have a script: %s", unknown)
}

// load is requests by policies of all algorithms, alone and together, with bans and with receipts.
type load struct {
	store    *Store
	requests [][]limiter.Check

	mu      sync.Mutex
	decided []decision
}

// decision is when a request began, and who has decided it.
type decision struct {
	began  time.Time
	source limiter.Source
}

// since counts the requests that began after an instant, by who has decided them.
func (l *load) since(began time.Time) (onRedis, here int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.decided {
		switch {
		case !d.began.After(began):
		case d.source == limiter.SourceRedis:
			onRedis++
		default:
			here++
		}
	}
	return onRedis, here
}

// lastFallback returns when the last request began that this process has decided.
func (l *load) lastFallback() (last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.decided {
		if d.source != limiter.SourceRedis && d.began.After(last) {
			last = d.began
		}
	}
	return last
}

func newLoad(t *testing.T, f *Store) *load {
	t.Helper()
	l := &load{store: f}
	add := func(checks ...limiter.Check) { l.requests = append(l.requests, checks) }
	for _, algorithm := range limiter.Algorithms() {
		p := storetest.DayPolicy(t, algorithm, algorithm, 1_000_000)
		banning := storetest.NewPolicy(t, limiter.Settings{Name: algorithm + "-bans", Algorithm: algorithm, Limit: 1_000_000, Window: time.Hour,
			Ban: []time.Duration{time.Minute}, BanAfter: 3})
		add(limiter.Check{Policy: p, Weight: 1})
		add(limiter.Check{Policy: p, Weight: 1, Refundable: true})
		add(limiter.Check{Policy: banning, Weight: 1})
		add(limiter.Check{Policy: p, Weight: 1}, limiter.Check{Policy: banning, Weight: 1})
	}
	return l
}

// begin sends about 500 requests a second, until the function that it returns has returned.
func (l *load) begin() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		ticks := time.NewTicker(2 * time.Millisecond)
		defer ticks.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			<-ticks.C
			group.Go(func() {
				checks := append([]limiter.Check(nil), l.requests[i%len(l.requests)]...)
				for at := range checks {
					checks[at].Key = limiter.EncodeKey(fmt.Sprint("client-", i%100))
				}
				began := time.Now()
				if source, err := l.store.DecideIn(context.Background(), limiter.FailLocal, checks); err == nil {
					l.mu.Lock()
					l.decided = append(l.decided, decision{began, source})
					l.mu.Unlock()
				}
			})
		}
	})
	return func() { cancel(); group.Wait() }
}
