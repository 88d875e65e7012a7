package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// facts returns what was measured, where and when.
func facts(ctx context.Context, o options) [][2]string {
	return [][2]string{
		{"command", "`" + command() + "`"},
		{"date", time.Now().UTC().Format(time.DateOnly)},
		{"run", fmt.Sprintf("%d rounds, %d s a row after %v of warming up; slower links, the cluster and latencies in every second round", o.rounds, o.seconds, warmUp)},
		{"load average before", o.loadBefore},
		{"processor", fmt.Sprintf("%s, %d cores", procField("/proc/cpuinfo", "model name"), runtime.NumCPU())},
		{"memory", procField("/proc/meminfo", "MemTotal")},
		{"system", runtime.GOOS + "/" + runtime.GOARCH + " " + firstLine("/proc/sys/kernel/osrelease")},
		{"Go", strings.TrimPrefix(runtime.Version(), "go")},
		{"Redis", found(ctx, `v=(\S+)`, "redis-server", "--version")},
		{"Caddy", version(ctx, ".", "github.com/caddyserver/caddy/v2")},
		{"go-redis", version(ctx, ".", "github.com/redis/go-redis/v9")},
		{"Valkey", found(ctx, `v=(\S+)`, valkey9.path, "--version")},
		{"mholt/caddy-ratelimit", version(ctx, ".", "github.com/mholt/caddy-ratelimit")},
		{"redis_rate", version(ctx, ".", "github.com/go-redis/redis_rate/v10")},
		{"envoyproxy/ratelimit", version(ctx, "envoy", "github.com/envoyproxy/ratelimit")},
		{"wrk", found(ctx, `wrk (\S+)`, "wrk", "-v")},
	}
}

const unknown = "unknown"

// version returns a Go module's version, as the go.mod of a directory resolves it.
func version(ctx context.Context, dir, module string) string {
	return found(ctx, `\S+`, "go", "-C", dir, "list", "-m", "-f", "{{.Version}}", module)
}

// found runs a command and returns what a pattern's last group matches in its output.
func found(ctx context.Context, pattern, name string, args ...string) string {
	output, _ := exec.CommandContext(ctx, name, args...).CombinedOutput() // wrk -v prints its version and fails
	groups := regexp.MustCompile(pattern).FindSubmatch(output)
	if groups == nil {
		return unknown
	}
	return string(groups[len(groups)-1])
}

// procField returns the value of the first line "name: value" of a file of Linux.
func procField(file, name string) string {
	text, err := os.Open(file)
	if err != nil {
		return unknown
	}
	defer text.Close() //nolint:errcheck // it was only read
	for lines := bufio.NewScanner(text); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return unknown
}

func firstLine(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return unknown
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
