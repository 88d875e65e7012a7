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
func facts(ctx context.Context, o options, rounds int) [][2]string {
	module := func(dir, path string) string {
		return found(ctx, `\S+`, "go", "-C", dir, "list", "-m", "-f", "{{.Version}}", path)
	}
	return [][2]string{
		{"date", time.Now().UTC().Format(time.DateOnly)},
		{"run", fmt.Sprintf("%#q, %d rounds, seed %d, load average before %s", command(), rounds, o.seed, o.loadBefore)},
		{"machine", fmt.Sprintf("%s, %d cores, %s/%s %s", procField("/proc/cpuinfo", "model name"), runtime.NumCPU(),
			runtime.GOOS, runtime.GOARCH, firstLine("/proc/sys/kernel/osrelease"))},
		{"versions", strings.Join([]string{
			"Go " + strings.TrimPrefix(runtime.Version(), "go"),
			"Redis " + found(ctx, `v=(\S+)`, "redis-server", "--version"),
			"Caddy " + module(".", "github.com/caddyserver/caddy/v2"),
			"go-redis " + module(".", "github.com/redis/go-redis/v9"),
			"mholt/caddy-ratelimit " + module(".", "github.com/mholt/caddy-ratelimit"),
			"redis_rate " + module(".", "github.com/go-redis/redis_rate/v10"),
			"envoyproxy/ratelimit " + module("envoy", "github.com/envoyproxy/ratelimit"),
		}, ", ")},
	}
}

const unknown = "unknown"

// found runs a command and returns what a pattern's last group matches in its output.
func found(ctx context.Context, pattern, name string, args ...string) string {
	output, _ := exec.CommandContext(ctx, name, args...).CombinedOutput()
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
