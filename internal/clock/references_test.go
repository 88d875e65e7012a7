package clock

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestReferences_end_once has many acquire and release at the moment that the owner ends.
func TestReferences_end_once(t *testing.T) {
	t.Parallel()
	for range 200 {
		var ended, using atomic.Int32
		r := NewReferences(func() {
			assert.ErrorIf(t, ended.Add(1) != 1 || using.Load() != 0,
				"ended %d times, with %d in use", ended.Load(), using.Load())
		})
		var users sync.WaitGroup
		for range 4 {
			users.Go(func() {
				for range 20 {
					if r.Acquire() {
						using.Add(1)
						using.Add(-1)
						r.Release()
					}
				}
			})
		}
		users.Go(r.Release)
		users.Wait()
		<-r.Closed
		assert.ErrorIf(t, r.Acquire(), "acquired after the end")
	}
}
