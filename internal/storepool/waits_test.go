package storepool

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestPolicy_CountWait counts a wait that ends after its configuration, and nothing for a name that was dropped.
func TestPolicy_CountWait(t *testing.T) {
	defer WaitSeconds.DeletePartialMatch(prometheus.Labels{"policy": "gpu"})
	living := map[string]bool{"gpu": true}
	names := newNameTable(func() map[string]bool { return living }, time.Now)
	defer names.end()
	gpu, before := names.Use("gpu"), countSeries(WaitSeconds)
	assert.Equal(t, len(names.Waiting()), 0, "names whose requests wait")
	gpu.HaveWait()
	names.Release([]*PolicyStats{gpu})
	gpu.CountWait("started", time.Second)
	gpu.CountWait("timeout", time.Second)
	assert.ErrorIf(t, !slices.Equal(names.Waiting(), []string{"gpu"}), "requests of %v wait", names.Waiting())
	assert.Equal(t, countSeries(WaitSeconds)-before, 2, "series of waits")
	clear(living)
	names.prune()
	gpu.CountWait("left", time.Second)
	assert.Equal(t, countSeries(WaitSeconds), before, "series of waits after the name was dropped")
	assert.Equal(t, len(names.Waiting()), 0, "names whose requests wait after that")
}
