package storepool

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestCountIfWatch_concurrent has many responses at once, of which one reports.
func TestCountIfWatch_concurrent(t *testing.T) {
	var watch CountIfWatch
	var reports atomic.Int32
	var requests sync.WaitGroup
	for range 8 {
		requests.Go(func() {
			for i := range 500 {
				if statuses, unmatched := watch.Look(http.MethodPost, 200+i%7, false); unmatched {
					reports.Add(1)
					assert.ErrorIf(t, strings.Count(statuses, ": ") != maxStatuses || !strings.HasSuffix(statuses, ", 2 others"), "the statuses are %s", statuses)
				}
			}
		})
	}
	requests.Wait()
	assert.ErrorIf(t, reports.Load() != 1 || watch.statuses != nil, "%d reports, and %v is kept; want one and nothing", reports.Load(), watch.statuses)
	_, unmatched := watch.Look(http.MethodPost, 200, false)
	assert.ErrorIf(t, unmatched, "it reports again")
}
