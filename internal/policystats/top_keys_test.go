package policystats

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestTopKeys_List_frequent_keys adds a few frequent keys in a flood of others, over two periods
// of time, and compares with exact counts.
func TestTopKeys_List_frequent_keys(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	top := NewTopKeys(func() time.Time { return now })
	random := rand.New(rand.NewPCG(1, 2))
	exact := map[string]int64{}
	for i := range 100_000 {
		key := fmt.Sprint("flood-", random.IntN(50_000))
		if i%4 == 0 {
			key = fmt.Sprint("often-", random.IntN(8))
		}
		if i == 50_000 {
			now = now.Add(TopPeriod)
		}
		top.Add(key)
		exact[key]++
	}
	keys, since := top.List()
	assert.ErrorIf(t, since != TopPeriod, "counts go back %v, want %v", since, TopPeriod)
	for i, k := range keys {
		assert.ErrorIf(t, k.Count < exact[k.Key] || k.Count-k.Error > exact[k.Key],
			"%s came %d times, not %d with an error of %d", k.Key, exact[k.Key], k.Count, k.Error)
		assert.ErrorIf(t, i < 8 && k.Key[:5] != "often", "place %d has %+v", i, k)
	}
	assert.ErrorIf(t, len(keys) > 2*KeptKeys, "%d keys are kept", len(keys))
}

func TestTopKeys_List_old_keys(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	top := NewTopKeys(func() time.Time { return now })
	top.Add("a")
	now = now.Add(TopPeriod)
	top.Add("b")
	if keys, _ := top.List(); len(keys) != 2 {
		t.Errorf("got %v, want both", keys)
	}
	now = now.Add(TopPeriod)
	if keys, _ := top.List(); len(keys) != 1 || keys[0].Key != "b" {
		t.Errorf("got %v, want b alone", keys)
	}
	now = now.Add(5 * TopPeriod)
	if keys, since := top.List(); len(keys) != 0 || since != 0 {
		t.Errorf("got %v since %v, want nothing", keys, since)
	}
}

func BenchmarkTopKeys_Add(b *testing.B) {
	for _, keys := range []int{100, 100_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			top := NewTopKeys(time.Now)
			names := make([]string, keys)
			for i := range names {
				names[i] = fmt.Sprint("client-", i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				top.Add(names[i%keys])
			}
		})
	}
}
