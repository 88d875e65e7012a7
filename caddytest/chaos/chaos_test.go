// Package chaos breaks Redis in every way under load. CHAOS=long makes each fault last longer.
package chaos

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// fault is a row of the suite, with processes of its own.
type fault struct {
	name   string
	happen func(t *testing.T, r *row)
}

var faults = []fault{
	{"killed and restarted empty", killed("local")},
	{"killed and restarted empty, fail_mode open", killed("open")},
	{"killed and restarted empty, fail_mode closed", killed("closed")},
	{"paused and resumed", onStorm(plainly, properties{outage: true}, paused)},
	{"FLUSHALL", onStorm(patiently, properties{forgotten: 1}, flushed)},
	{"out of memory, noeviction", onStorm(plainly, properties{outage: true}, outOfMemory, "--maxmemory-policy", "noeviction")},
	{"read-only", onStorm(plainly, properties{outage: true}, readOnly)},
	{"connections killed by CLIENT KILL", onStorm(plainly, properties{outage: true}, killedAgain(20*time.Millisecond))},
	{"latency 1 ms", behindProxy(plainly, onReplies("latency", "latency", 1), held, (*storm).mostlyOnRedis)},
	{"latency 50 ms", behindProxy(plainly, onReplies("latency", "latency", 50), held, (*storm).mostlyOnRedis)},
	{"latency 500 ms", behindProxy(plainly, onReplies("latency", "latency", 500), tooFar)},
	{"connections reset", behindProxy(plainly, onReplies("reset_peer", "timeout", 0), held)},
	// The client sees the end of a connection late: its commands in between get no reply.
	{"connections closed late", behindProxy(plainly, onReplies("slow_close", "delay", 1000), killedAgain(200*time.Millisecond))},
	// Connections end within a reply. Most replies arrive, so that the breaker stays closed and every request is sent to Redis.
	{"replies cut off", behindProxy(exactly, onReplies("limit_data", "bytes", lasting(10_010, 1_010)), held, (*storm).countsOnce)},
	{"replies dropped", repliesDropped},
	{"one address: failover to a replica", failoverByAddress},
	{"Sentinel: master killed", failingOver((pair).kill)},
	{"Sentinel: failover by command", failingOver((pair).failOver)},
	{"Sentinel: new master 10 s behind", masterBehind},
	{"Cluster: a master killed", clusterMasterKilled},
	{"Cluster: slot migrated", slotMigrated},
	{"Caddy reloaded again and again", reloaded},
	{"two nodes, Redis 10 s ahead", clocksApart},
}

// isLong reports whether CHAOS=long is set.
func isLong() bool { return os.Getenv("CHAOS") == "long" }

// lasting returns a value of the long suite or of the short one.
func lasting[T any](long, short T) T {
	if isLong() {
		return long
	}
	return short
}

// stormPhase returns a third of the time of a storm's load.
func stormPhase() time.Duration { return lasting(5*time.Second, 500*time.Millisecond) }

// requestPace returns the least time from one request of a client to its next.
func requestPace() time.Duration { return lasting(caddytest.RequestPace, 15*caddytest.RequestPace) }

// TestMain plays eight rows of the short suite at once: they wait more than they work.
func TestMain(m *testing.M) {
	flag.Parse()
	if !isLong() {
		_ = flag.Set("test.parallel", "8") // the flag exists
	}
	m.Run()
}

// beside has a test run beside others of the short suite. With CHAOS=long each has the machine for itself.
func beside(t *testing.T) {
	t.Helper()
	if !isLong() {
		t.Parallel()
	}
}

// watchStalls measures how long the machine stalls, if the test has it for itself.
func watchStalls(t *testing.T) (longest func() time.Duration) {
	t.Helper()
	if !isLong() {
		return func() time.Duration { return 0 }
	}
	stalls := redistest.WatchStalls(t)
	return func() time.Duration { return stalls().Longest() }
}

// checkNoneWaits checks that no request waited for longer than it may, if the test has the machine for itself. Stalls of
// the machine are added to the bound.
func checkNoneWaits(t *testing.T, slowest, stalled time.Duration) {
	t.Helper()
	if isLong() {
		const timeout = dial.DefaultTimeout
		assert.ErrorIf(t, slowest >= timeout+caddytest.Slack+stalled,
			"the slowest answer took %v; none may wait for longer than %v (the machine stalled for %v)", slowest, timeout, stalled)
		t.Logf("the slowest answer took %v; the machine stalled for %v", slowest, stalled)
	}
}

// playAll plays the rows of a table, each in a test of its own, and logs the table. play returns the columns between
// the row's name and its outcome.
func playAll[R any](t *testing.T, header string, rows []R, name func(R) string, play func(t *testing.T, row R) fmt.Stringer) {
	t.Helper()
	beside(t)
	lines := make([]string, len(rows))
	t.Cleanup(func() { t.Logf("\n%s", aligned(header+" | properties hold\n"+strings.Join(lines, "\n"))) })
	for i, row := range rows {
		lines[i] = name(row) + " | NO"
		t.Run(name(row), func(t *testing.T) {
			beside(t)
			columns, outcome := play(t, row), "yes"
			if t.Failed() {
				outcome = "NO"
			}
			lines[i] = fmt.Sprintf("%s | %v | %s", name(row), columns, outcome)
			t.Log(lines[i])
		})
	}
}

// TestChaos sends load to Caddy during one fault after the other and prints the results of the requests.
func TestChaos(t *testing.T) {
	playAll(t, header, faults, func(f fault) string { return f.name }, func(t *testing.T, f fault) fmt.Stringer {
		r := new(row)
		f.happen(t, r)
		return r
	})
}

// aligned returns lines of columns with the columns below one another.
func aligned(lines string) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 1, ' ', tabwriter.Debug)
	_, _ = w.Write([]byte(strings.ReplaceAll(lines, " | ", "\t "))) // to memory
	_ = w.Flush()
	return text.String()
}
