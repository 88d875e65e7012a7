package waiting

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// TestQueue_waits counts what waits by policy and by key, and tells the age of the oldest of all values.
func TestQueue_waits(t *testing.T) {
	w, s, q := newHandQueue(t)
	assert.Equal(t, len(q.ByPolicy()), 0, "policies for which requests wait at first")
	other := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "php", MaxConcurrent: 1}))(t)
	join := func(p *limiter.Policy, key string, order Order) *Ticket[*units] {
		defer w.advance(time.Millisecond)
		return q.Join(Request{Policy: p, Key: limiter.EncodeKey(key), Weight: 1, Longest: time.Minute, Most: 10, Order: order})
	}
	gpu := running(t, 1)
	tickets := []*Ticket[*units]{
		join(gpu, "a", ByValue(1)), join(gpu, "a", ByValue(2)), join(gpu, "b", Order{}), join(other, "a", Order{}), join(gpu, "a", ByValue(2)),
	}
	check := func(gpuAll, gpuA, phpAll Waits) {
		t.Helper()
		found := q.ByPolicy()
		assert.Equal(t, found["gpu"], gpuAll, "waits of gpu")
		assert.Equal(t, found["php"], phpAll, "waits of php")
		assert.Equal(t, q.OfKey(gpu, limiter.EncodeKey("a")), gpuA, "waits of gpu's key a")
		assert.Equal(t, q.OfKey(gpu, limiter.EncodeKey("c")), Waits{}, "waits of gpu's key c")
	}
	check(Waits{4, 5 * time.Millisecond}, Waits{3, 5 * time.Millisecond}, Waits{1, 2 * time.Millisecond})
	s.grant(0, NoClaim()) // to the first of a
	has(t, tickets[0], nil)
	check(Waits{3, 4 * time.Millisecond}, Waits{2, 4 * time.Millisecond}, Waits{1, 2 * time.Millisecond})
	for _, ticket := range tickets[1:4] {
		_ = ticket.Leave()
	}
	check(Waits{1, time.Millisecond}, Waits{1, time.Millisecond}, Waits{})
	_ = tickets[4].Leave()
	check(Waits{}, Waits{}, Waits{})
}
