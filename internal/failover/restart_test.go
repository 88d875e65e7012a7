package failover

import (
	"context"
	"fmt"
	"slices"
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
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/scripts"
)

// TestFailover_restart_far_away restarts a Redis that is far away: soon after it answers again, it decides. It has lost
// the scripts, and a new connection costs several round trips.
func TestFailover_restart_far_away(t *testing.T) {
	for _, far := range []struct{ roundTrip, soon time.Duration }{
		{40 * time.Millisecond, 500 * time.Millisecond}, {20 * time.Millisecond, 300 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(far.roundTrip), func(t *testing.T) {
			t.Parallel() // beside the other round trip: both wait mostly
			var here, measured int
			for tries := 0; tries < 3 && (measured < 200 || here*100 > measured); tries++ {
				here, measured = restartFarAway(t, far.roundTrip, far.soon)
			}
			if measured < 200 {
				t.Skip("this machine has no time to measure in")
			}
			assert.ErrorIf(t, here*100 > measured, "%d of %d requests fall back later than %v after Redis answers", here, measured, far.soon)
		})
	}
}

// restartFarAway has two seconds of requests begin some time after a restarted Redis answers. It returns how many of them
// fall back, and how many there are, without those that this machine has kept waiting: none where it has so kept the probe.
func restartFarAway(t *testing.T, roundTrip, soon time.Duration) (here, measured int) {
	t.Helper()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	proxy.Delay(roundTrip)
	r := stores.OpenStore(t, dial.Connection{Addresses: []string{proxy.Addr}}, redis.Setup{KeyFormat: limiter.KeyFormat{Prefix: "rl"}})
	f := New(r, memory.New(), Behavior{})
	for begin := time.Now(); len(r.Scripts.InUse(0)) < 32; {
		useTakes(t, f) // by this round trip a node may be away for a while when it does not have a script
		if time.Since(begin) > time.Minute {
			t.Logf("%d scripts are in use after a minute", len(r.Scripts.InUse(0)))
			return 0, 0
		}
	}
	load := newLoad(t, f)
	stop := load.begin()
	assert.Retry(t, "Redis decides", func() (again bool, seen any) {
		decided := load.onRedis()
		return decided < 1000, decided
	})
	inUse := len(r.Scripts.InUse(0))
	server.Kill()
	stores.WaitFailing(t, f, true, func() {})
	<-time.After(1300 * time.Millisecond) // between two probes of a second
	server.Run(t)
	answers := time.Now()
	watch := redistest.WatchStalls(t, server)
	<-time.After(soon + 2*time.Second)
	stop()
	stalls := watch()
	if stalls.Before(answers.Add(soon)).Longest() > roundTrip/2 {
		t.Log("while Redis was made ready, it or this process waited for a processor")
		return 0, 0
	}
	here, measured = load.since(answers.Add(soon), stalls)
	t.Logf("%d of %d requests fell back, without those that waited for a processor; %d scripts were in use", here, measured, inUse)
	return here, measured
}

// useTakes has requests of two to four policies, by one algorithm or two, bring as many scripts of takes into use as a node has.
func useTakes(t *testing.T, f *Store) {
	t.Helper()
	algorithms := []string{limiter.FixedWindow, limiter.SlidingWindowCounter, limiter.SlidingWindowLog, limiter.GCRA}
	for i, first := range algorithms {
		for _, second := range algorithms[i:] {
			for checks := 2; checks <= scripts.MostChecks; checks++ {
				request := make([]limiter.Check, checks)
				for n := range request {
					p := storetest.DayPolicy(t, fmt.Sprint("takes-", n), []string{first, second}[n%2], 1_000_000)
					request[n] = limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}
				}
				_, err := f.Decide(t.Context(), request)
				assert.ErrorIf(t, err != nil, "a request of %d policies: %v", checks, err)
			}
		}
	}
}

// TestFailover_restart_ready restarts a Redis and asks by the scripts that were in use: Redis has them from the probe, and
// the connections are open that were in use, before requests come. The first message brings debts of the outage too.
func TestFailover_restart_ready(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int{"one policy": 1, "all algorithms": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			r := stores.OpenWithin(t, server, stores.Patience, limiter.KeyFormat{Prefix: "rl"})
			f := New(r, memory.New(), Behavior{})
			f.ledger.repays.Run = nil // no request waits for debts that leave by themselves, by a script of several algorithms
			requests := newLoad(t, f).requests
			requests = requests[:min(most, len(requests))]
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
			stores.WaitFailing(t, f, true, func() { ask("") })
			ask(limiter.SourceFallback)
			server.Run(t)
			stores.WaitFailing(t, f, false, func() {})
			open := r.Client().PoolStats().TotalConns
			assert.ErrorIf(t, open < 7, "%d connections are open, of 7", open)
			ask(limiter.SourceRedis)
			client := server.Client(t)
			failed := client.Info(t.Context(), "errorstats").Val()
			assert.ErrorIf(t, strings.Contains(failed, "NOSCRIPT"), "Redis did not have a script: %s", failed)
			for _, script := range r.Scripts.InUse(0) {
				err := client.Process(t.Context(), script.Introduce(t.Context(), "k"))
				assert.ErrorIf(t, err != nil, "a script that is made known fails: %v", err)
			}
		})
	}
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

// onRedis counts the requests that Redis has decided.
func (l *load) onRedis() (count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.decided {
		if d.source == limiter.SourceRedis {
			count++
		}
	}
	return count
}

// since counts the requests that began after an instant, and those of them that this process has decided. It leaves out
// those that a stall has kept waiting, or the batch before them.
func (l *load) since(began time.Time, stalls redistest.Stalls) (here, all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.decided {
		from, to := d.began.Add(-dial.DefaultTimeout), d.began.Add(dial.DefaultTimeout)
		stalled := func(s redistest.Stall) bool {
			return s.To.Sub(s.From) > 7*time.Millisecond && s.From.Before(to) && s.To.After(from)
		}
		if d.began.Before(began) || slices.ContainsFunc(stalls, stalled) {
			continue
		}
		if all++; d.source != limiter.SourceRedis {
			here++
		}
	}
	return here, all
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
