package replay

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
	_ "time/tzdata" // zones of machines without a table

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
)

// This file holds suggestions equal to what a store decides of the same traffic, limit by limit.

// asked is one request of a test's traffic.
type asked struct {
	key            string
	micros, weight int64
	took           int64 // microseconds until its response ended; 0: unknown
	returned       bool  // the store gives its units back when the response ends
}

// suggestTraffic is random traffic of a few keys, some much busier than others, with instants at the edges
// of windows and pauses. Instants are whole steps, in microseconds. Of so large a part of the requests
// the units are given back, of half of them at once.
func suggestTraffic(seed uint64, requests int, window, step int64, returned float64) []asked {
	random := rand.New(rand.NewPCG(seed, 7))
	now := peakStart / window * window
	var traffic []asked
	for range requests {
		switch random.IntN(60) {
		case 0:
			now += window + random.Int64N(window)
		case 1:
			now = (now/window + 1) * window
		case 2:
			now += window - step
		case 3, 4, 5:
			now += random.Int64N(window/4+1) / step * step
		default:
			now += random.Int64N(window/100+1) / step * step
		}
		weight := int64(1)
		switch random.IntN(40) {
		case 0:
			weight = random.Int64N(30)
		case 1:
			weight = 0
		}
		key := min(random.IntN(8), random.IntN(8), random.IntN(8))
		took := max(0, random.Int64N(window/2)-window/4)
		traffic = append(traffic, asked{fmt.Sprint("client-", key), now, weight, took, random.Float64() < returned})
	}
	return traffic
}

// decided is what a store denies of some traffic under one limit: how many requests, and how many keys.
type decided struct {
	denied  int64
	clients int
}

// decideAll asks a store.
func decideAll(t *testing.T, s limiter.Settings, traffic []asked) decided {
	t.Helper()
	p := suggestPolicy(t, s)
	now := int64(0)
	store := memory.NewOnClock(func() int64 { return now })
	var d decided
	keys := map[string]bool{}
	passed := map[int64][]limiter.Check{} // by when their responses end
	for _, a := range traffic {
		for _, ends := range slices.Sorted(maps.Keys(passed)) {
			if ends > a.micros {
				break
			}
			now = ends
			for _, check := range passed[ends] {
				store.Settle(check, 0)
				store.EndRunning([]limiter.Check{check})
			}
			delete(passed, ends)
		}
		now = a.micros
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(a.key), Weight: a.weight, Peek: a.weight == 0, Refundable: a.returned && !p.CountsRunning}}
		_, err := store.Decide(context.Background(), checks)
		assert.FatalIf(t, err != nil, "%v", err)
		switch {
		case !checks[0].Result.Passes():
			d.denied++
			keys[a.key] = true
		case a.returned && a.weight > 0:
			passed[now+a.took] = append(passed[now+a.took], checks[0])
		}
	}
	d.clients = len(keys)
	return d
}

func TestSuggester_exact(t *testing.T) {
	for i, c := range []struct {
		window   time.Duration
		step     int64
		max      int64
		returned float64
	}{
		{time.Second, 1, highestLimit, 0},
		{time.Minute, 1, highestLimit, 0},
		{time.Minute, 1_000_000, highestLimit, 0}, // as logs in the common format have it
		{time.Minute, 1, 9, 0},                    // most keys are over the top
		{24 * time.Hour, 1000, highestLimit, 0},   // counts in milliseconds
		{time.Minute, 1, highestLimit, 0.5},       // with count_if
		{time.Minute, 1_000_000, highestLimit, 0.9},
		{time.Minute, 1, 9, 0.5},
		{24 * time.Hour, 1000, highestLimit, 0.5},
	} {
		t.Run(fmt.Sprintf("window %v step %d up to %d, %v returned", c.window, c.step, c.max, c.returned), func(t *testing.T) {
			t.Parallel()
			for seed, play := range assert.Plays(t, 1, 3) {
				traffic := suggestTraffic(16*seed+uint64(i), assert.Rounds(1000, 5_000), c.window.Microseconds(), c.step, c.returned)
				settings := limiter.Settings{Algorithm: "fixed_window", Limit: 7, Window: c.window, Refunds: c.returned > 0}
				s := assert.NoError(newSuggester(suggestPolicy(t, settings), "", limiter.Algorithms(), c.max))(t)
				compareSuggestions(t, play, s, settings, traffic)
			}
		})
	}
}

func TestSuggester_exact_without_pauses(t *testing.T) {
	for _, growth := range []float64{1, 0.99, 1.01} {
		t.Run(fmt.Sprintf("gaps grow by %v", growth), func(t *testing.T) {
			const window = time.Second
			settings := limiter.Settings{Algorithm: counterName, Limit: 7, Window: window}
			random := rand.New(rand.NewPCG(3, 3))
			now, gap := peakStart, 40_000.0
			var traffic []asked
			for range 600 {
				now += int64(gap * (0.8 + 0.4*random.Float64()))
				gap *= growth
				traffic = append(traffic, asked{key: "a", micros: now, weight: 1})
			}
			compareSuggestions(t, assert.NewPlay(t, 3), newTestSuggester(t, settings), settings, traffic)
		})
	}
}

// compareSuggestions holds everything that a suggester finds equal to what stores decide.
func compareSuggestions(t *testing.T, play *assert.Play, suggester *Suggester, settings limiter.Settings, traffic []asked) {
	t.Helper()
	addAll(suggester, traffic)
	ladders := assert.NoError(suggester.play())(t)
	for i, algorithm := range suggester.names {
		settings.Algorithm = algorithm
		compareLadder(t, play, &ladders[i], traffic, func(limit int64) limiter.Settings {
			settings.Limit = limit
			return settings
		})
	}
}

func addAll(suggester *Suggester, traffic []asked) {
	for _, a := range traffic {
		ends := int64(0)
		if a.took > 0 {
			ends = a.micros + a.took
		}
		then := kept
		if a.returned {
			then = refunded
		}
		suggester.add(a.key, a.micros, ends, a.weight, then)
	}
}

// compareLadder compares all limits of a ladder up to the first ones that deny nothing, and those that leave keys
// untouched with the limits below.
func compareLadder(t *testing.T, play *assert.Play, l *Ladder, traffic []asked, settings func(limit int64) limiter.Settings) {
	t.Helper()
	assert.ErrorIf(t, l.Sample != nil, "%s: a sample of few requests: %+v", l.Algorithm, l.Sample)
	for _, got := range l.Limits {
		if l.Untouched100 > 0 && got.Limit > 2*l.Untouched100 {
			break
		}
		play.Step("%s: a limit of %d for %d requests", l.Algorithm, got.Limit, len(traffic))
		want := decideAll(t, settings(got.Limit), traffic)
		assert.ErrorIf(t, got != (limitResult{got.Limit, want.denied, want.clients}),
			"%s: %+v, a store denies %d requests of %d clients", l.Algorithm, got, want.denied, want.clients)
	}
	for _, limit := range []int64{l.Untouched99, l.Untouched100} { // of eight keys
		if limit == 0 {
			continue
		}
		play.Step("%s: a limit of %d, which leaves all untouched, and %d", l.Algorithm, limit, limit-1)
		if d := decideAll(t, settings(limit), traffic); d.denied != 0 {
			t.Errorf("%s: limit %d is to leave all untouched, denies %d", l.Algorithm, limit, d.denied)
		}
		if limit == 1 {
			continue
		}
		if d := decideAll(t, settings(limit-1), traffic); d.denied == 0 {
			t.Errorf("%s: limit %d leaves all untouched, one more is said to be the smallest", l.Algorithm, limit-1)
		}
	}
}

// TestSuggester_exact_running tries limits of requests that run at once.
func TestSuggester_exact_running(t *testing.T) {
	traffic := suggestTraffic(5, 2000, 1_000_000, 1, 1) // all units come back
	for i := range traffic {
		traffic[i].took++ // known
	}
	s := newTestSuggester(t, limiter.Settings{MaxConcurrent: 7})
	addAll(s, traffic)
	ladders := assert.NoError(s.play())(t)
	compareLadder(t, assert.NewPlay(t, 5), &ladders[0], traffic, func(limit int64) limiter.Settings { return limiter.Settings{MaxConcurrent: limit} })
}

// TestSuggester_sample compares limits that were tried on some of the keys with those of all keys.
func TestSuggester_sample(t *testing.T) {
	const clients = 6_000
	traffic := pageViews(clients, 20*clients, 24*time.Hour)
	for i := range traffic {
		traffic[i].took = 30_000_000
	}
	settings := limiter.Settings{Algorithm: counterName, Limit: 7, Window: time.Minute}
	whole, some := newTestSuggester(t, settings), newTestSuggester(t, settings)
	some.met.most, some.ran.most = 40_000, 40_000
	addAll(whole, traffic)
	addAll(some, traffic)
	want, got := finish(t, whole), finish(t, some)
	assert.ErrorIf(t, got.Requests != want.Requests || got.Clients != want.Clients, "%d requests of %d keys, want all", got.Requests, got.Clients)
	compareSample(t, got.Running.Limits, want.Running.Limits, want.Requests, want.Clients)
	exact := assert.NoError(whole.play())(t)
	for i := range got.Ladders {
		compareSample(t, &got.Ladders[i], &exact[i], want.Requests, want.Clients)
	}
	again := newTestSuggester(t, settings)
	again.met.most, again.ran.most = 40_000, 40_000
	addAll(again, traffic)
	assert.Equal(t, finish(t, again), got, "the same log, sampled again")
}

// compareSample wants the numbers of a sample within the error that it tells.
func compareSample(t *testing.T, sampled, exact *Ladder, requests int64, clients int) {
	t.Helper()
	s := sampled.Sample
	if s == nil || s.Share >= 1 || s.Share < 0.1 || s.ErrorRequests <= 0 || s.ErrorRequests > 0.05 || s.ErrorClients <= 0 || s.ErrorClients > 0.03 {
		t.Fatalf("%s: %+v", sampled.Algorithm, s)
	}
	t.Logf("%s: %+v", sampled.Algorithm, *s)
	for _, want := range exact.Limits {
		for _, got := range sampled.Limits {
			if got.Limit != want.Limit {
				continue
			}
			ofRequests := math.Abs(float64(got.Denied-want.Denied)) / float64(requests)
			ofClients := math.Abs(float64(got.ClientsDenied-want.ClientsDenied)) / float64(clients)
			assert.ErrorIf(t, ofRequests > s.ErrorRequests || ofClients > s.ErrorClients, "%s: %+v, want %+v within %+v", sampled.Algorithm, got, want, *s)
		}
	}
}

// TestSuggester_sample_of_busy_keys has more requests of a few keys than a sample keeps: their first ones stand for all.
func TestSuggester_sample_of_busy_keys(t *testing.T) {
	s := newTestSuggester(t, limiter.Settings{Algorithm: counterName, Limit: 10, Window: time.Minute}, counterName)
	s.met.most = 10_000
	const requests = 100_000
	for i := range requests {
		s.add([]string{"bot", "crawler"}[i%2], peakStart+int64(i)*1_000_000, 0, 1, kept) // 30 a minute
	}
	l := finish(t, s).Ladders[0]
	if l.Sample == nil || l.Sample.CutClients != 2 || l.Sample.Share != 1 || l.Sample.Requests > 10_000 || l.Sample.MostOfClient > 5_000 {
		t.Fatalf("%+v", l.Sample)
	}
	at := slices.IndexFunc(l.Limits, func(r limitResult) bool { return r.Limit == 10 })
	if r := l.Limits[at]; math.Abs(float64(r.Denied)/requests-2.0/3) > 0.01 || r.ClientsDenied != 2 || l.Untouched100 < 29 || l.Untouched100 > 32 {
		t.Errorf("%+v, untouched %d", r, l.Untouched100)
	}
}

// TestSample_lacks_the_busiest tells of the requests of a key that is busier than all keys in the sample.
func TestSample_lacks_the_busiest(t *testing.T) {
	s := newSample()
	s.add("busy", peakStart, 0, 1)
	s.halvings = 1
	for i := 0; s.sampled == 0; i++ {
		s.add(fmt.Sprint("quiet ", i), peakStart, 0, 1)
	}
	busy := &s.keys[0]
	busy.hash, busy.requests = 1<<63, 1000
	s.total += 999
	share := 1000 / float64(s.total)
	assert.ErrorIf(t, s.estimate().overlooked != share, "overlooked %v, want %v", s.estimate().overlooked, share)
}

// TestSuggester_calendar tries limits of calendar periods by the log's own clock: days of Santiago around the
// one without a first hour, and months.
func TestSuggester_calendar(t *testing.T) {
	zone := assert.NoError(time.LoadLocation("America/Santiago"))(t)
	begins := time.Date(2026, 9, 4, 12, 0, 0, 0, time.UTC).UnixMicro()
	const day = 86_400_000_000
	play := assert.NewPlay(t, 1)
	for _, calendar := range []string{"day", "month"} {
		settings := suggestPolicy(t, limiter.Settings{Calendar: calendar, Location: zone, Limit: 20, Refunds: true}).Settings
		traffic := suggestTraffic(1, 2000, day, 1000, 0.1)
		first := traffic[0].micros
		for i := range traffic {
			traffic[i].micros += begins - first
		}
		s := newTestSuggester(t, settings)
		compareSuggestions(t, play, s, settings, traffic)
		if len(s.names) != 1 || s.names[0] != limiter.FixedWindow || !s.TriesRunning() || s.result.windowText() != "calendar "+calendar+" (America/Santiago)" || s.ownLimit() != 20 {
			t.Errorf("tried %v of %s, with requests at once: %v", s.names, s.result.windowText(), s.TriesRunning())
		}
	}
}

// pageViews is traffic like that of a small site: clients that load some pages, each with a handful of
// files in the seconds after it, with times in whole seconds.
func pageViews(clients, requests int, span time.Duration) []asked {
	random := rand.New(rand.NewPCG(1, 1))
	var traffic []asked
	for i := 0; len(traffic) < requests; i++ {
		client := i
		if i >= clients {
			client = int(float64(clients) * random.Float64() * random.Float64() * random.Float64())
		}
		at := peakStart + random.Int64N(int64(span.Seconds()))*1_000_000
		for range 1 + random.IntN(3) {
			at += random.Int64N(60) * 1_000_000
			for range 1 + random.IntN(8) {
				traffic = append(traffic, asked{key: fmt.Sprintf("host-%06d.example.com", client), micros: at + random.Int64N(6)*1_000_000, weight: 1})
			}
		}
	}
	slices.SortStableFunc(traffic, func(a, b asked) int { return int(a.micros - b.micros) })
	return traffic
}

// TestSuggester_memory bounds what a suggester keeps, and that its keys beyond the sample are small.
func TestSuggester_memory(t *testing.T) {
	const clients = 5_000
	traffic := pageViews(clients, 40*clients, 24*time.Hour)
	before := heapInUse()
	s := newTestSuggester(t, limiter.Settings{Algorithm: counterName, Limit: 60, Window: time.Minute})
	s.met.most = 100_000
	addAll(s, traffic)
	used := heapInUse() - before
	runtime.KeepAlive(s)
	t.Logf("%d bytes for %d requests of %d keys, %d of them in the sample", used, len(traffic), len(s.met.keys), len(s.met.requests))
	assert.ErrorIf(t, used > 100_000*24*2+200*clients, "%d bytes", used)
	runtime.KeepAlive(traffic)
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
