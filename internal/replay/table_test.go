package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestWriteTable_singular(t *testing.T) {
	r := &Result{
		Requests: 1, Denied: 1, Clients: 1, ClientsDenied: 1, Unlimited: 1, Peak: Bucket{Requests: 1},
		Policies: []PolicyResult{{Name: "p", Limit: 1, Window: time.Minute, Requests: 1, Clients: 1}},
	}
	text := tableOf(t, r)
	for _, plural := range []string{"1 requests", "1 clients", "1 keys"} {
		redistest.ErrorIf(t, strings.Contains(text, plural), "%s in %s", plural, text)
	}
}

func TestWriteTable_settings(t *testing.T) {
	r := &Result{Policies: []PolicyResult{
		{Name: "dynamic", Algorithm: "gcra", Limit: 5, LimitFrom: "{http.request.header.X-Limit}", Burst: 7, BurstFrom: "{b}", Window: time.Minute},
		{Name: "queue", Algorithm: "leaky_bucket", Limit: 60, Burst: 20, MaxDelay: 5 * time.Second, Window: time.Minute, DryRun: true},
		{Name: "counts", Algorithm: "fixed_window", Limit: 1_000, CountIf: true, Cost: "response_bytes", Window: time.Hour},
	}}
	text := tableOf(t, r)
	for _, want := range []string{
		"policy dynamic: limit {http.request.header.X-Limit}, else 5, per 1m, gcra, burst {b}, else 7\n",
		"policy queue: 60 per 1m, leaky_bucket, burst 20, max_delay 5s, dry run\n",
		"policy counts: 1,000 per 1h, fixed_window, count_if, cost response_bytes\n",
	} {
		redistest.ErrorIf(t, !strings.Contains(text, want), "no %q in\n%s", want, text)
	}
}

func TestWriteTable_unread_lines(t *testing.T) {
	r := &Result{Log: LogReport{
		Lines: 9, Malformed: 2, Late: 3, LatestBy: 4 * time.Second, First5: []BadLine{{"a.log:2", "cut off", "bad text"}},
		Files: []FileReport{{Name: "b.log.gz", Error: "unexpected end"}},
	}}
	text := tableOf(t, r)
	for _, want := range []string{"2 of 9 lines could not be read", "a.log:2: cut off: bad text", "played late: 3 (by up to 4s)", "b.log.gz: unexpected end"} {
		redistest.ErrorIf(t, strings.Count(text, want) != 1, "%q does not stand once in\n%s", want, text)
	}
}

func TestLasted(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "once", time.Millisecond: "<1s", 499 * time.Millisecond: "<1s", 1200 * time.Millisecond: "1s", 90 * time.Minute: "1h30m"} {
		got := lasted(d)
		redistest.ErrorIf(t, got != want, "%v is %q, want %q", d, got, want)
	}
}

// TestWriteTable_width prints large numbers and a long key, and wants lines of at most 80 characters.
func TestWriteTable_width(t *testing.T) {
	const key = "2001:db8:1:2::/64|0123456789"
	r := &Result{
		Requests: 1_000_000, Denied: 999_999, Clients: 1_000, ClientsDenied: 999, Peak: Bucket{Requests: 999_999},
		Policies: []PolicyResult{{
			Name: "api", Algorithm: "sliding_window_counter", Limit: 5, Window: time.Minute, Requests: 1_000_000, Denied: 999_999, Clients: 1_000, ClientsDenied: 999,
			Worst: []ClientResult{{Key: key, Requests: 1_000_000, Denied: 999_999, LongestLasted: 90 * time.Minute}, {Key: "192.0.2.1", Requests: 2, Denied: 1}},
		}},
	}
	text := tableOf(t, r)
	for line := range strings.Lines(text) {
		redistest.ErrorIf(t, len(line) > 81, "%q is wider than 80 columns", line)
	}
	if !strings.Contains(text, "   DENIED         OF  FIRST DENIAL      LONGEST  KEY\n") || !strings.Contains(text, key+"\n") {
		t.Errorf("got\n%s", text)
	}
}
