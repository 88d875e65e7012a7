// Package chaos breaks Redis in every way under load. CHAOS=long makes each fault last longer.
package chaos

import (
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// faults are the faults of the suite. Each has processes of its own.
var faults = []struct {
	name   string
	happen func(t *testing.T, r *row)
}{
	{"killed and restarted empty", killed("local")},
	{"killed and restarted empty, fail_mode open", killed("open")},
	{"killed and restarted empty, fail_mode closed", killed("closed")},
	{"paused and resumed", paused},
	{"FLUSHALL", flushed},
	{"out of memory, noeviction", outOfMemory},
	{"read-only", readOnly},
	{"connections killed by CLIENT KILL", connectionsKilled},
	{"latency 1 ms", nearby(1)},
	{"latency 50 ms", nearby(50)},
	{"latency 500 ms", tooFar},
	{"connections reset", resets},
	{"connections closed late", slowClose},
	{"replies cut off", repliesCut},
	{"replies dropped", repliesDropped},
	{"Sentinel: master killed", masterKilled},
	{"Sentinel: failover by command", failoverByCommand},
	{"Sentinel: new master 10 s behind", masterBehind},
	{"Cluster: a master killed", clusterMasterKilled},
	{"Cluster: slot migrated", slotMigrated},
	{"Caddy reloaded again and again", reloaded},
	{"two nodes, Redis 10 s ahead", clocksApart},
}

// isLong reports whether CHAOS=long is set.
func isLong() bool { return os.Getenv("CHAOS") == "long" }

// stormPhase returns a third of the time of a storm's load.
func stormPhase() time.Duration {
	if isLong() {
		return 5 * time.Second
	}
	return 500 * time.Millisecond
}

// TestChaos sends load to Caddy during one fault after the other and prints the results of the requests.
func TestChaos(t *testing.T) {
	var rows []*row
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			r := &row{fault: fault.name}
			rows = append(rows, r)
			defer func() {
				r.outcome = "yes"
				if t.Failed() {
					r.outcome = "NO"
				}
				t.Log(r)
			}()
			fault.happen(t, r)
		})
	}
	t.Logf("\n%s", table(rows))
}

// table returns the rows as an aligned table.
func table(rows []*row) string {
	lines := header
	for _, r := range rows {
		lines += "\n" + r.String()
	}
	return aligned(lines)
}

// aligned returns lines of columns with the columns below one another.
func aligned(lines string) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 1, ' ', tabwriter.Debug)
	_, _ = w.Write([]byte(strings.ReplaceAll(lines, " | ", "\t "))) // to memory
	_ = w.Flush()
	return text.String()
}
