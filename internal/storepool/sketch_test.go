package storepool

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestSketch_List_frequent_keys adds a few frequent keys in a flood of others, over two periods
// of time, and compares with exact counts.
func TestSketch_List_frequent_keys(t *testing.T) {
	for seed, play := range assert.Plays(t, 1, 50) {
		now := time.Unix(1_790_000_000, 0)
		sketch := newSketch(func() time.Time { return now })
		random := rand.New(rand.NewPCG(seed, 2))
		exact := map[string]int64{}
		for i := range 100_000 {
			key := fmt.Sprint("flood-", random.IntN(50_000))
			if i%4 == 0 {
				key = fmt.Sprint("often-", random.IntN(8))
			}
			if i == 50_000 {
				now = now.Add(sketchPeriod)
			}
			play.Step("adds %s", key)
			sketch.Add(key, now)
			exact[key]++
		}
		keys, since := sketch.List()
		assert.ErrorIf(t, since != sketchPeriod, "counts go back %v, want %v", since, sketchPeriod)
		for i, k := range keys {
			play.Step("place %d has %+v", i, k)
			assert.ErrorIf(t, k.Count < exact[k.Key] || k.Count-k.Error > exact[k.Key], "%s came %d times", k.Key, exact[k.Key])
			assert.ErrorIf(t, i < 8 && k.Key[:5] != "often", "a rare key is among the frequent ones")
		}
		assert.ErrorIf(t, len(keys) > 2*sketchKept, "%d keys are kept", len(keys))
	}
}

func TestSketch_List_old_keys(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	sketch := newSketch(func() time.Time { return now })
	sketch.Add("a", now)
	now = now.Add(sketchPeriod)
	sketch.Add("b", now)
	if keys, _ := sketch.List(); len(keys) != 2 {
		t.Errorf("got %v, want both", keys)
	}
	now = now.Add(sketchPeriod)
	if keys, _ := sketch.List(); len(keys) != 1 || keys[0].Key != "b" {
		t.Errorf("got %v, want b alone", keys)
	}
	now = now.Add(5 * sketchPeriod)
	if keys, since := sketch.List(); len(keys) != 0 || since != 0 {
		t.Errorf("got %v since %v, want nothing", keys, since)
	}
}

func BenchmarkSketch_Add(b *testing.B) {
	for _, keys := range []int{100, 100_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			sketch := newSketch(time.Now)
			names := make([]string, keys)
			for i := range names {
				names[i] = fmt.Sprint("client-", i)
			}
			now := time.Now()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				sketch.Add(names[i%keys], now)
			}
		})
	}
}
