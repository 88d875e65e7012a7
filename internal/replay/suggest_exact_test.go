package replay

import (
	"context"
	"fmt"
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
	returned       bool // the store gives its units back
}

// suggestTraffic is random traffic of a few keys, some much busier than others, with instants at the edges
// of windows and pauses. Instants are whole steps, in microseconds. Of so large a part of the requests
// the units are given back.
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
		traffic = append(traffic, asked{fmt.Sprint("client-", key), now, weight, random.Float64() < returned})
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
	s.Refunds = true
	p := suggestPolicy(t, s)
	now := int64(0)
	store := memory.NewOnClock(func() int64 { return now })
	var d decided
	keys := map[string]bool{}
	for _, a := range traffic {
		now = a.micros
		checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey(a.key), Weight: a.weight, Peek: a.weight == 0, Refundable: a.returned}}
		_, err := store.Decide(context.Background(), checks)
		assert.FatalIf(t, err != nil, "%v", err)
		passes := checks[0].Result.Passes()
		switch {
		case !passes:
			d.denied++
			keys[a.key] = true
		case a.returned:
			store.Settle(checks[0], 0)
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
			traffic := suggestTraffic(uint64(i), assert.Rounds(1000, 10_000), c.window.Microseconds(), c.step, c.returned)
			settings := limiter.Settings{Algorithm: "fixed_window", Limit: 7, Window: c.window}
			s := assert.NoError(newSuggester(suggestPolicy(t, settings), "", limiter.Algorithms(), c.max))(t)
			compareSuggestions(t, s, settings, traffic)
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
			compareSuggestions(t, newTestSuggester(t, settings), settings, traffic)
		})
	}
}

// compareSuggestions holds everything that a suggester finds equal to what stores decide.
func compareSuggestions(t *testing.T, suggester *Suggester, settings limiter.Settings, traffic []asked) {
	t.Helper()
	for _, a := range traffic {
		suggester.Add(a.key, a.micros, a.weight, a.returned)
	}
	result := suggester.Finish()
	for i, algorithm := range suggester.names {
		settings.Algorithm = algorithm
		peaks := suggester.peaks(suggester.columns[i])
		for _, got := range newLadderResult(algorithm, suggester.ladder.limits, suggester.denied[i], peaks).Limits {
			if got.Limit > 2*peaks[len(peaks)-1] {
				break
			}
			settings.Limit = got.Limit
			want := decideAll(t, settings, traffic)
			assert.ErrorIf(t, got != (LimitResult{got.Limit, want.denied, want.clients}),
				"%s: %+v, a store denies %d requests of %d clients", algorithm, got, want.denied, want.clients)
		}
		settings.Limit = result.Ladders[i].Untouched100
		if settings.Limit == 0 {
			continue
		}
		if d := decideAll(t, settings, traffic); d.denied != 0 {
			t.Errorf("%s: limit %d is to leave all untouched, denies %d", algorithm, settings.Limit, d.denied)
		}
		settings.Limit--
		if d := decideAll(t, settings, traffic); d.denied == 0 {
			t.Errorf("%s: limit %d leaves all untouched, one more is said to be the smallest", algorithm, settings.Limit)
		}
	}
}

// TestSuggester_calendar tries limits of calendar periods by the log's own clock: days of Santiago around the
// one without a first hour, and months.
func TestSuggester_calendar(t *testing.T) {
	zone := assert.NoError(time.LoadLocation("America/Santiago"))(t)
	begins := time.Date(2026, 9, 4, 12, 0, 0, 0, time.UTC).UnixMicro()
	const day = 86_400_000_000
	for _, calendar := range []string{"day", "month"} {
		settings := suggestPolicy(t, limiter.Settings{Calendar: calendar, Location: zone, Limit: 20}).Settings()
		traffic := suggestTraffic(1, 2000, day, 1000, 0.1)
		first := traffic[0].micros
		for i := range traffic {
			traffic[i].micros += begins - first
		}
		s := newTestSuggester(t, settings)
		compareSuggestions(t, s, settings, traffic)
		if len(s.names) != 1 || s.names[0] != limiter.FixedWindow || s.running == nil || s.result.WindowText() != "calendar "+calendar+" (America/Santiago)" || s.ownLimit() != 20 {
			t.Errorf("tried %v of %s, with requests at once: %v", s.names, s.result.WindowText(), s.running != nil)
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
				traffic = append(traffic, asked{fmt.Sprintf("host-%06d.example.com", client), at + random.Int64N(6)*1_000_000, 1, false})
			}
		}
	}
	slices.SortStableFunc(traffic, func(a, b asked) int { return int(a.micros - b.micros) })
	return traffic
}

func TestSuggester_memory(t *testing.T) {
	const clients = 5_000
	traffic := pageViews(clients, 10*clients, 24*time.Hour)
	for _, c := range []struct {
		window time.Duration
		most   uint64 // bytes a key
	}{{time.Minute, 1500}, {24 * time.Hour, 2000}} {
		before := heapInUse()
		s := newTestSuggester(t, limiter.Settings{Algorithm: counterName, Limit: 60, Window: c.window})
		for i := range traffic {
			s.Add(traffic[i].key, traffic[i].micros, traffic[i].weight, false)
		}
		each := (heapInUse() - before) / uint64(len(s.keys))
		runtime.KeepAlive(s)
		t.Logf("window %v: %d bytes for each of %d keys", c.window, each, len(s.keys))
		assert.ErrorIf(t, each > c.most, "window %v: %d bytes a key, want at most %d", c.window, each, c.most)
	}
	runtime.KeepAlive(traffic)
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
