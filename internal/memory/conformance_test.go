package memory_test

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/inmemory"
)

func TestStores_promises(t *testing.T) {
	t.Parallel()
	storetest.Promises(t, inmemory.Open)
}

func TestLeases_never_admit_more(t *testing.T) {
	t.Parallel()
	storetest.LeasesNeverAdmitMore(t, 0, assert.Rounds[int64](40_000, 5_000_000), inmemory.Open)
}
