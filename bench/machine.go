package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// facts returns what was measured, where and when.
func facts(ctx context.Context, o options, rounds int) [][2]string {
	module := func(dir, path string) string {
		return serve.Found(ctx, `\S+`, "go", "-C", dir, "list", "-m", "-f", "{{.Version}}", path)
	}
	return [][2]string{
		{"date", time.Now().UTC().Format(time.DateOnly)},
		{"run", fmt.Sprintf("%#q, %d rounds, seed %d, load average before %s", command(), rounds, o.seed, o.loadBefore)},
		{"machine", fmt.Sprintf("%s, %d cores, %s/%s %s", procField("/proc/cpuinfo", "model name"), runtime.NumCPU(),
			runtime.GOOS, runtime.GOARCH, firstLine("/proc/sys/kernel/osrelease"))},
		{"versions", strings.Join([]string{
			"Go " + strings.TrimPrefix(runtime.Version(), "go"),
			"Redis " + serve.Found(ctx, `v=(\S+)`, "redis-server", "--version"),
			"Caddy " + module(".", "github.com/caddyserver/caddy/v2"),
			"go-redis " + module(".", "github.com/redis/go-redis/v9"),
			"mholt/caddy-ratelimit " + module(".", "github.com/mholt/caddy-ratelimit"),
			"redis_rate " + module(".", "github.com/go-redis/redis_rate/v10"),
			"envoyproxy/ratelimit " + module("envoy", "github.com/envoyproxy/ratelimit"),
		}, ", ")},
	}
}

// procField returns the value of the first line "name: value" of a file of Linux.
func procField(file, name string) string {
	text, err := os.Open(file)
	if err != nil {
		return serve.Unknown
	}
	defer text.Close() //nolint:errcheck // it was only read
	for lines := bufio.NewScanner(text); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return serve.Unknown
}

func firstLine(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return serve.Unknown
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
