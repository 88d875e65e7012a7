package dial

import (
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestNewClient_idle_connections(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Standalone, Sentinel, Cluster} {
		o := Options{Mode: mode, Addresses: []string{"127.0.0.1:1"}, Timeout: time.Second}
		if mode == Sentinel {
			o.Master = "main"
		}
		client, err := New(o)
		assert.Must(t, err)
		t.Cleanup(func() { _ = client.Close() })
		var idle time.Duration
		switch client := client.(type) {
		case *goredis.ClusterClient:
			idle = client.Options().ConnMaxIdleTime
		case interface{ Options() *goredis.Options }:
			idle = client.Options().ConnMaxIdleTime
		}
		assert.ErrorIf(t, idle >= 0, "%s: closed after %v", mode, idle)
	}
}
