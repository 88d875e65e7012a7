package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

func TestWriteTable_singular(t *testing.T) {
	r := &Result{
		Requests: 1, Denied: 1, Clients: 1, ClientsDenied: 1, Unlimited: 1, Peak: bucket{Requests: 1},
		Policies: []PolicyResult{{PolicyDescription: display.PolicyDescription{Name: "p", Limit: 1, Window: display.DurationSeconds(time.Minute)}, Requests: 1, Clients: 1}},
	}
	text := tableSays(t, r)
	for _, plural := range []string{"1 requests", "1 clients", "1 keys"} {
		assert.ErrorIf(t, strings.Contains(text, plural), "%s in %s", plural, text)
	}
}

func TestWriteTable_settings(t *testing.T) {
	r := &Result{Policies: []PolicyResult{
		{PolicyDescription: display.PolicyDescription{Name: "dynamic", Algorithm: "gcra", Limit: 5, LimitFrom: "{http.request.header.X-Limit}", Burst: 7, BurstFrom: "{b}", Window: display.DurationSeconds(time.Minute)}},
		{PolicyDescription: display.PolicyDescription{Name: "queue", Algorithm: "leaky_bucket", Limit: 60, Burst: 20, MaxDelay: new(display.DurationSeconds(5 * time.Second)), Window: display.DurationSeconds(time.Minute), Handlers: []display.Handler{{DryRun: true}}}},
		{PolicyDescription: display.PolicyDescription{Name: "counts", Algorithm: "fixed_window", Limit: 1_000, Window: display.DurationSeconds(time.Hour), Handlers: []display.Handler{{CountIf: "status 401", Cost: "response_bytes"}}}},
		{PolicyDescription: display.PolicyDescription{Name: "some", Algorithm: "gcra", Limit: 9, LimitFrom: "{l}", Unlimited: true, Window: display.DurationSeconds(time.Hour), Handlers: []display.Handler{{Enforce: new(12.5), Reserve: "20%"}}}},
	}}
	tableSays(t, r, "policy dynamic: {http.request.header.X-Limit} requests per minute for each key,\n  else 5; algorithm gcra, burst {b}, else 7\n",
		"policy queue: 60 requests per minute for all clients together; algorithm\n  leaky_bucket, burst 20, max_delay 5s, dry_run\n",
		"policy counts: 1kB per hour for all clients together; algorithm fixed_window,\n  count_if status 401, cost response_bytes\n",
		"policy some: {l} requests per hour for all clients together, else unlimited;\n  algorithm gcra, reserve 20%, enforce 12.5%\n")
}

func TestWriteTable_unread_lines(t *testing.T) {
	r := &Result{Log: readReport{
		Lines: 9, Malformed: 2, Late: 3, LatestBy: 4 * time.Second, MalformedExamples: []accesslog.Skipped{{Where: "a.log:2", Reason: "cut off", Text: "bad text", Lines: 2}},
		Other: 1, OtherExamples: []accesslog.Skipped{{Where: "a.log:3", Reason: "a message", Text: "hello", Lines: 1}},
		Files: []fileReport{{Name: "b.log.gz", Format: "X", Client: "the second word", Time: "the end of requests", Requests: 7, Error: "unexpected end"}, {Name: "c.json", Error: "no line is a request"}},
	}, Skipped: []string{"encode", "proxy"}, Warnings: []string{"keys are redacted"}}
	tableSays(t, r, "skipped, because they need real requests: encode, proxy\n", "warning: keys are redacted\n", "2 of 9 lines could not be read", "a.log:2: cut off (2 lines): bad text",
		"1 of 9 lines is no request, such as\n  a.log:3: a message (1 line): hello\n", "read as X, the client is the second word, times are the end of requests\n", "played late: 3 (by up to 4s)", "b.log.gz: unexpected end; the lines before count\n", "c.json: no line is a request\n")
}

// TestWriteTable_whole_seconds says how far numbers of denials may be off, and which clients are no addresses, before all
// numbers.
func TestWriteTable_whole_seconds(t *testing.T) {
	r := &Result{
		Requests: 9, Denied: 3, DeniedOff: 2, Clients: 5, ClientsDenied: 1, NoAddresses: noAddresses{Clients: 4, Examples: []string{"a\x1b", "b", "c"}},
		Policies: []PolicyResult{{PolicyDescription: display.PolicyDescription{Name: "p", Limit: 1, Window: display.DurationSeconds(time.Second)}, Requests: 9, Denied: 3, DeniedOff: 1, Clients: 5}},
	}
	text := tableSays(t, r, "3 ± 2 requests denied (33.3 %)", "9 requests, 3 ± 1 denied")
	assert.ErrorIf(t, !strings.HasPrefix(text, "4 clients are no addresses, such as a\\x1b, b, c\n"), "%s", text)
}

func TestLasted(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "once", time.Millisecond: "<1s", 499 * time.Millisecond: "<1s", 1200 * time.Millisecond: "1s", 90 * time.Minute: "1h30m"} {
		assert.Equal(t, lasted(d), want, "%v", d)
	}
}

// TestWriteTable_width prints large numbers and a long key, and wants lines of at most 80 characters.
func TestWriteTable_width(t *testing.T) {
	const key = "2001:db8:1:2::/64|0123456789"
	r := &Result{
		Requests: 1_000_000, Denied: 999_999, Clients: 1_000, ClientsDenied: 999, Peak: bucket{Requests: 999_999},
		Policies: []PolicyResult{{PolicyDescription: display.PolicyDescription{Name: "api", Algorithm: "sliding_window_counter", Limit: 5, Window: display.DurationSeconds(time.Minute)}, Requests: 1_000_000, Denied: 999_999, Clients: 1_000, ClientsDenied: 999,
			Worst: []clientResult{{Key: key, Requests: 1_000_000, Denied: 999_999, LongestLasted: 90 * time.Minute}, {Key: "192.0.2.1", Requests: 2, Denied: 1}}}},
	}
	for line := range strings.Lines(tableSays(t, r, "   DENIED         OF  FIRST DENIAL      LONGEST  KEY\n", key+"\n")) {
		assert.ErrorIf(t, len(line) > 81, "%q is wider than 80 columns", line)
	}
}

// timedLine is a request of Caddy's log that ended so many seconds after the first, after so many seconds.
func timedLine(ended, took float64) string {
	return fmt.Sprintf(`{"ts":%.3f,"request":{"client_ip":"192.0.2.1","method":"GET","uri":"/"},"duration":%.3f,"size":1,"status":200}`+"\n", 1_750_000_000+ended, took)
}

// suggestsRunning plays a log with limits of running requests suggested for a policy.
func suggestsRunning(t *testing.T, log string, policy PolicyResult, algorithms ...string) *Result {
	t.Helper()
	suggester := newTestSuggester(t, limiter.Settings{Limit: 5, Window: time.Minute}, algorithms...)
	engine := fakeEngine{policies: []PolicyResult{policy}}
	engine.play = everywhere(Decision{Outcome: limiter.OutcomeAllowed, Policies: []PolicyDecision{{Key: "a", Weight: 3}}})
	return runOn(t, log, engine, RunOptions{Suggest: suggester, Worst: 10})
}

func TestRun_suggest_running(t *testing.T) {
	log := timedLine(1, 0.5) + timedLine(2, 2) + timedLine(3, 2.5) + timedLine(3.5, 0.1)
	policy := PolicyResult{PolicyDescription: display.PolicyDescription{Name: "p", Limit: 5, Window: display.DurationSeconds(time.Minute)}}
	r := suggestsRunning(t, log, policy)
	running := r.Suggestions.Running
	if len(r.Suggestions.Ladders) != 3 || running.Peak != 3 || running.Limits.Untouched100 != 3 || running.Requests != 4 {
		t.Errorf("%+v", r.Suggestions)
	}
	assert.ErrorIf(t, r.Policies[0].Running != nil, "a policy of a window shows what runs at once")
	tableSays(t, r,
		"limits of requests running at once, on the 4 requests of 1 key that met policy p,\n",
		"     3       3    3  max_concurrent\n",
		"  at once in the log: at most 3 of one key (2025-06-15 15:06), 3 of all keys (2025-06-15 15:06)\n",
		"        3         4  2025-06-15 15:06  a\n",
		"      1                2  50.0 %            1  100 %\n")
}

func TestRun_suggest_running_alone(t *testing.T) {
	r := suggestsRunning(t, timedLine(1, 0.5), PolicyResult{PolicyDescription: display.PolicyDescription{Name: "p", Limit: 5, Window: display.DurationSeconds(time.Minute)}}, maxConcurrent)
	assert.ErrorIf(t, len(r.Suggestions.Ladders) != 0 || r.Suggestions.Running == nil, "%+v", r.Suggestions)
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"running":{"requests":1,"untimed":0,"peak":1,`) || strings.Contains(string(text), "null") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestRun_suggest_running_without_durations(t *testing.T) {
	policy := PolicyResult{PolicyDescription: display.PolicyDescription{Name: "p", Limit: 5, Window: display.DurationSeconds(time.Minute)}}
	const sentence = "limits of requests that run at once are not tried: the log has no durations"
	r := suggestsRunning(t, commonLine(1)+commonLine(2), policy)
	tableSays(t, r, sentence)
	assert.ErrorIf(t, r.Suggestions.Running != nil || len(r.Suggestions.NotTried) != 1 || r.Suggestions.OwnLimit != 5, "%+v", r.Suggestions)
	r = suggestsRunning(t, commonLine(1)+timedLine(2, 0.1), policy)
	tableSays(t, r, "left out, without a duration in the log: 1 request\n")
}

func TestRun_running_of_policy(t *testing.T) {
	engine := fakeEngine{policies: []PolicyResult{{PolicyDescription: display.PolicyDescription{Name: "p", MaxConcurrent: 5}}}}
	engine.play = everywhere(Decision{Outcome: limiter.OutcomeDenied, Policies: []PolicyDecision{{Key: "a", Weight: 2, Denied: true}}})
	r := runOn(t, timedLine(1, 0.5)+timedLine(1, 0.6), engine, RunOptions{})
	got := r.Policies[0].Running
	assert.FatalIf(t, got == nil || got.Peak != 4 || got.Limits != nil, "%+v", r.Policies[0])
	tableSays(t, r, "policy p: 5 requests at once for each key\n", "at most 4 of one key")
	for log, want := range map[string]string{
		commonLine(1):                     "policy p: the log has no durations, so that every request ends as it begins",
		commonLine(1) + timedLine(2, 0.1): "policy p: without a duration in the log, so that they end as they begin: 1 request",
	} {
		r := runOn(t, log, engine, RunOptions{})
		assert.ErrorIf(t, len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], want), "warnings %q, want %q", r.Warnings, want)
	}
}

func TestHistogram_limit(t *testing.T) {
	for _, limit := range []int64{1, 2, 3, 4, 5, 7, 8, 10, 14, 60, 100, 101, 12_345, 1 << 52} {
		var peaks []int64
		for most := int64(0); most < 40_000; most += 1 + most/50 {
			peaks = append(peaks, most)
		}
		bins := histogram(peaks, limit)
		clients, next := 0, int64(1)
		for _, b := range bins {
			assert.ErrorIf(t, b.From != next || b.To < b.From, "limit %d: bin %d–%d does not begin at %d", limit, b.From, b.To, next)
			next = b.To + 1
			clients += b.Clients
		}
		assert.ErrorIf(t, clients != len(peaks)-1, "limit %d: %d keys in the bins, want %d", limit, clients, len(peaks)-1)
		assert.ErrorIf(t, limit < 40_000 && !slices.ContainsFunc(bins, func(b peakRate) bool { return b.To == limit }),
			"limit %d: no bin ends there: %v", limit, bins)
	}
}

func TestHistogram_range(t *testing.T) {
	got := histogram([]int64{0, 3, 3, 12}, 7)
	want := []peakRate{{3, 3, 2}, {4, 5, 0}, {6, 7, 0}, {8, 14, 1}}
	assert.ErrorIf(t, !slices.Equal(got, want), "%v, want %v", got, want)
	if got := histogram(nil, 7); len(got) != 0 {
		t.Errorf("%v without keys", got)
	}
}

func TestWriteTable_sample(t *testing.T) {
	limits := []limitResult{{Limit: 5, Denied: 10, ClientsDenied: 1}}
	sample := &sampleReport{Share: 0.25, Clients: 1_480, Requests: 39_000, ErrorRequests: 0.0054, ErrorClients: 0.01}
	cut := &sampleReport{Share: 1, Clients: 2, Requests: 8_192, CutClients: 2, MostOfClient: 4_096}
	tableSays(t, &Result{Suggestions: &suggestions{
		Requests: 100, Clients: 6_000, Window: time.Minute,
		Ladders: []Ladder{{Algorithm: "gcra", Limits: limits, Sample: sample}, {Algorithm: "fixed_window", Limits: limits, Sample: cut}},
	}},
		"  gcra:\n  played for 1,480 of 6,000 keys, chosen by a hash: right within 0.5 % of the requests and 1.0 % of the keys; the limit that leaves all untouched is that of the chosen ones\n  LIMIT",
		"; of 2 keys only the first 4,096 requests, which stand for all\n  LIMIT")
}
