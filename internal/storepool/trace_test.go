package storepool

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

func TestTrace_is_nothing_without_a_span(t *testing.T) {
	ask := traceStore(dial.Options{})
	redistest.ErrorIf(t, ask(t.Context()) != nil, "a span began")
	if allocations := testing.AllocsPerRun(100, func() { ask(t.Context()) }); allocations > 1 { // that of t.Context
		t.Errorf("%v allocations", allocations)
	}
}
