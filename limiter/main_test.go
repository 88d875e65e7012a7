package limiter

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
