package replay

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

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
		s := newTestSuggester(t, limiter.Settings{Algorithm: counterName, Limit: 60, Window: c.window}, SuggestOptions{})
		for i := range traffic {
			s.Add(traffic[i].key, traffic[i].micros, traffic[i].weight, false)
		}
		each := (heapInUse() - before) / uint64(len(s.keys))
		runtime.KeepAlive(s)
		t.Logf("window %v: %d bytes for each of %d keys", c.window, each, len(s.keys))
		if each > c.most {
			t.Errorf("window %v: %d bytes a key, want at most %d", c.window, each, c.most)
		}
	}
	runtime.KeepAlive(traffic)
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
