//go:build linux

package redisratelimit

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// threadTime returns the time that the processor has worked for this thread. Other work of the machine does not count.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	const ofThread = 1 // RUSAGE_THREAD
	var usage syscall.Rusage
	assert.Must(t, syscall.Getrusage(ofThread, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// timeOfPolicies returns the least time of three in which a directive with so many policies is adapted.
func timeOfPolicies(t *testing.T, n int) time.Duration {
	t.Helper()
	var text strings.Builder
	text.WriteString("{\nauto_https off\n}\n:80 {\nredis_ratelimit {\n")
	for i := range n {
		fmt.Fprintf(&text, "policy many-%d {\nkey {query.k}\nlimit %d\nwindow 1m\n}\n", i, i+1)
	}
	text.WriteString("}\n}\n")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	least := time.Hour
	for range 3 {
		begin := threadTime(t)
		_, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text.String()), nil)
		assert.Must(t, err)
		least = min(least, threadTime(t)-begin)
	}
	return least
}

// TestCaddyfile_manyPolicies adapts ten times the policies in about ten times the time: nothing looks at all earlier
// policies for each. A square would take a hundred times as long.
func TestCaddyfile_manyPolicies(t *testing.T) {
	few, many := timeOfPolicies(t, 1000), timeOfPolicies(t, 10_000)
	assert.ErrorIf(t, many > 25*few, "10,000 policies take %v, 1,000 take %v", many, few)
	t.Logf("10,000 policies take %v, 1,000 take %v", many, few)
}
