package main

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestMeasure sends a small load from several nodes to a real Redis, and to the store in this process.
func TestMeasure(t *testing.T) {
	r, err := startRedis(t.Context())
	assert.Must(t, err)
	t.Cleanup(r.stop)
	l := loadOf("sliding_window_counter", 2)
	l.clients, l.together, l.nodes = 1000, 4, 2
	s, err := r.measure(t.Context(), l)
	assert.Must(t, err)
	assert.ErrorIf(t, s.cpu <= 0 || s.memory < 1000*100 || s.batches < 1 || s.batches > 2000, "got %+v", s)
	l.clients = 100_000
	bytes, err := l.heap(t.Context())
	assert.Must(t, err)
	assert.ErrorIf(t, bytes < 100_000*50 || bytes > 100_000*500, "the keys take %v bytes in this process", bytes)
}
