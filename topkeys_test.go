package redisratelimit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestTopKeys_never_misses_who_is_denied_often has a few clients in a flood of others, over two halves
// of the time, and compares with exact counts.
func TestTopKeys_never_misses_who_is_denied_often(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	top := newTopKeys(func() time.Time { return now })
	random := rand.New(rand.NewPCG(1, 2))
	exact := map[string]int64{}
	for i := range 100_000 {
		key := fmt.Sprint("flood-", random.IntN(50_000))
		if i%4 == 0 {
			key = fmt.Sprint("often-", random.IntN(8))
		}
		if i == 50_000 {
			now = now.Add(topHalf)
		}
		top.denied(key)
		exact[key]++
	}
	keys, since := top.list()
	if since != topHalf {
		t.Errorf("counts go back %v, want %v", since, topHalf)
	}
	for i, k := range keys {
		if k.denied < exact[k.key] || k.denied-k.error > exact[k.key] {
			t.Errorf("%s was denied %d times, not %d with an error of %d", k.key, exact[k.key], k.denied, k.error)
		}
		if i < 8 && k.key[:5] != "often" {
			t.Errorf("place %d has %+v", i, k)
		}
	}
	if len(keys) > 2*topKept {
		t.Errorf("%d keys are kept", len(keys))
	}
}

func TestTopKeys_forgets_what_is_long_ago(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	top := newTopKeys(func() time.Time { return now })
	top.denied("a")
	now = now.Add(topHalf)
	top.denied("b")
	if keys, _ := top.list(); len(keys) != 2 {
		t.Errorf("got %v, want both", keys)
	}
	now = now.Add(topHalf)
	if keys, _ := top.list(); len(keys) != 1 || keys[0].key != "b" {
		t.Errorf("got %v, want b alone", keys)
	}
	now = now.Add(5 * topHalf)
	if keys, since := top.list(); len(keys) != 0 || since != 0 {
		t.Errorf("got %v since %v, want nothing", keys, since)
	}
}

func BenchmarkTopKeys(b *testing.B) {
	for _, keys := range []int{100, 100_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			top := newTopKeys(time.Now)
			names := make([]string, keys)
			for i := range names {
				names[i] = fmt.Sprint("client-", i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				top.denied(names[i%keys])
			}
		})
	}
}
