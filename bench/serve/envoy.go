package serve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// EnvoyPackage is the server of envoyproxy/ratelimit, a tool of bench/envoy/go.mod.
const EnvoyPackage = "github.com/envoyproxy/ratelimit/src/service_cmd"

// EnvoyUnits are the windows of its limits, and the keys of their descriptors.
var EnvoyUnits = [...]string{"hour", "day", "minute", "week"}

// envoyConfig is a limit for each value of each key, too high for a run to reach.
func envoyConfig() []byte {
	config := []byte("domain: bench\ndescriptors:\n")
	for _, unit := range EnvoyUnits {
		config = fmt.Appendf(config, "  - key: %s\n    rate_limit:\n      unit: %[1]s\n      requests_per_unit: 1000000\n", unit)
	}
	return config
}

// Envoy starts envoyproxy/ratelimit with its default settings on a Redis, without statsd.
func Envoy(ctx context.Context, dir, binary, redisAddr string) (*Process, error) {
	config := filepath.Join(dir, "envoy", "ratelimit", "config")
	if err := os.MkdirAll(config, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(config, "bench.yaml"), envoyConfig(), 0o600); err != nil {
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
