package storetest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// logFollowsTextbook plays the sliding window log of textbooks beside the stores: it keeps the instant of each unit
// until a window has passed.
func logFollowsTextbook(t *testing.T, open Open) {
	stores := open(t)
	p := NewPolicy(t, limiter.Settings{Algorithm: limiter.SlidingWindowLog, Limit: 12, Window: time.Second})
	tr := &Trace{Random: rand.New(rand.NewPCG(7, 7)), Policies: []*limiter.Policy{p}, Now: Epoch, Play: assert.NewPlay(t, 7)}
	var live []int64
	allowed, denied := 0, 0
	for i := range 6000 {
		before := tr.Now
		tr.Step()
		tr.Now = max(before, tr.Now) // the textbook needs a clock that does not run backwards
		weight := 1 + tr.Random.Int64N(4)
		tr.Note("take", p, weight, 0)
		live = slices.DeleteFunc(live, func(at int64) bool { return at <= tr.Now-Sec })
		want := int64(len(live))+weight <= 12
		for _, s := range stores {
			got := s.Play(t, tr.Now, p, weight)
			if got.Passes() != want {
				t.Fatalf("step %d, %s: passes is %v, the textbook says %v", i, s.Name, got.Passes(), want)
			}
			tr.Learn([]limiter.Check{{Result: got}})
		}
		if want {
			live = append(live, slices.Repeat([]int64{tr.Now}, int(weight))...)
			allowed++
		} else {
			denied++
		}
	}
	if allowed < 500 || denied < 500 {
		t.Fatalf("one-sided trace: %d allowed, %d denied", allowed, denied)
	}
}
