package serve

import (
	"context"
	"os"
	"path/filepath"
)

// EnvoyPackage is the server of envoyproxy/ratelimit, a tool of bench/envoy/go.mod.
const EnvoyPackage = "github.com/envoyproxy/ratelimit/src/service_cmd"

// envoyConfig is a limit for each value of "client", too high for a run to reach.
const envoyConfig = `domain: bench
descriptors:
  - key: client
    rate_limit:
      unit: hour
      requests_per_unit: 1000000
`

// Envoy starts envoyproxy/ratelimit with its default settings on a Redis, without statsd.
func Envoy(ctx context.Context, dir, binary, redisAddr string) (*Process, error) {
	config := filepath.Join(dir, "envoy", "ratelimit", "config")
	if err := os.MkdirAll(config, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(config, "bench.yaml"), []byte(envoyConfig), 0o600); err != nil {
		return nil, err
	}
	var addrs, ports [3]string // HTTP, gRPC, debugging
	for i := range addrs {
		var err error
		if addrs[i], ports[i], err = freeAddr(); err != nil {
			return nil, err
		}
	}
	env := []string{
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
		"PORT=" + ports[0], "GRPC_PORT=" + ports[1], "DEBUG_PORT=" + ports[2],
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redisAddr, "USE_STATSD=false",
		"RUNTIME_ROOT=" + filepath.Join(dir, "envoy"), "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
	}
	return start(ctx, "envoyproxy/ratelimit", addrs[0], dir, env, binary)
}
