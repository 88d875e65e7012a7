package replay

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// timedLine is a request of Caddy's log that ended so many seconds after the first, after so many seconds.
func timedLine(ended, took float64) string {
	return fmt.Sprintf(`{"ts":%.3f,"request":{"client_ip":"192.0.2.1","method":"GET","uri":"/"},"duration":%.3f,"size":1,"status":200}`+"\n", 1_750_000_000+ended, took)
}

// suggestsRunning plays a log with limits of running requests suggested for a policy.
func suggestsRunning(t *testing.T, log string, policy PolicyResult, o SuggestOptions) *Result {
	t.Helper()
	suggester := newTestSuggester(t, limiter.Settings{Limit: 5, Window: time.Minute}, o)
	engine := fakeEngine{policies: []PolicyResult{policy}}
	engine.play = everywhere(Verdict{Outcome: Allowed, Decisions: []Decision{{Key: "a", Weight: 3}}})
	return runOn(t, log, engine, Options{Suggest: suggester})
}

func TestRun_suggest_running(t *testing.T) {
	log := timedLine(1, 0.5) + timedLine(2, 2) + timedLine(3, 2.5) + timedLine(3.5, 0.1)
	policy := PolicyResult{Name: "p", Limit: 5, Window: time.Minute}
	r := suggestsRunning(t, log, policy, SuggestOptions{})
	running := r.Suggestions.Running
	if len(r.Suggestions.Ladders) != 3 || running.Peak != 3 || running.Limits.Untouched100 != 3 || running.Requests != 4 {
		t.Errorf("%+v", r.Suggestions)
	}
	redistest.ErrorIf(t, r.Policies[0].Running != nil, "a policy of a window shows what runs at once")
	text := tableOf(t, r)
	for _, want := range []string{
		"limits of requests running at once, on the 4 requests of 1 key that met policy p,\n",
		"     3       3    3  max_concurrent\n",
		"  at once in the log: at most 3 of one key (2025-06-15 15:06), 3 of all keys (2025-06-15 15:06)\n",
		"        3         4  2025-06-15 15:06  a\n",
		"      1                2  50.0 %            1  100 %\n",
	} {
		redistest.ErrorIf(t, !strings.Contains(text, want), "no %q in\n%s", want, text)
	}
}

func TestRun_suggest_running_alone(t *testing.T) {
	r := suggestsRunning(t, timedLine(1, 0.5), PolicyResult{Name: "p", Limit: 5, Window: time.Minute}, SuggestOptions{Algorithms: []string{maxConcurrent}})
	redistest.ErrorIf(t, len(r.Suggestions.Ladders) != 0 || r.Suggestions.Running == nil, "%+v", r.Suggestions)
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"running":{"requests":1,"untimed":0,"peak":1,`) || strings.Contains(string(text), "null") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestRun_suggest_running_without_durations(t *testing.T) {
	policy := PolicyResult{Name: "p", Limit: 5, Window: time.Minute}
	const sentence = "limits of requests that run at once are not tried: the log has no durations"
	r := suggestsRunning(t, commonLine(1)+commonLine(2), policy, SuggestOptions{})
	if r.Suggestions.Running != nil || len(r.Suggestions.NotTried) != 1 || !strings.Contains(tableOf(t, r), sentence) || r.Suggestions.OwnLimit != 5 {
		t.Errorf("%+v", r.Suggestions)
	}
	r = suggestsRunning(t, commonLine(1)+timedLine(2, 0.1), policy, SuggestOptions{})
	if r.Suggestions.Running == nil || !strings.Contains(tableOf(t, r), "left out, without a duration in the log: 1 request\n") {
		t.Errorf("%+v", r.Suggestions)
	}
}

func TestRun_running_of_policy(t *testing.T) {
	engine := fakeEngine{policies: []PolicyResult{{Name: "p", MaxConcurrent: 5}}}
	engine.play = func(*accesslog.Entry) *Verdict {
		return &Verdict{Outcome: Denied, Decisions: []Decision{{Key: "a", Weight: 2, Denied: true}}}
	}
	r := runOn(t, timedLine(1, 0.5)+timedLine(1, 0.6), engine, Options{})
	got := r.Policies[0].Running
	redistest.FatalIf(t, got == nil || got.Peak != 4 || got.Limits != nil, "%+v", r.Policies[0])
	if text := tableOf(t, r); !strings.Contains(text, "policy p: max_concurrent 5\n") || !strings.Contains(text, "at most 4 of one key") {
		t.Errorf("in\n%s", text)
	}
	for log, want := range map[string]string{
		commonLine(1):                     "policy p: the log has no durations, so that every request ends as it begins",
		commonLine(1) + timedLine(2, 0.1): "policy p: without a duration in the log, so that they end as they begin: 1 request",
	} {
		r := runOn(t, log, engine, Options{})
		redistest.ErrorIf(t, len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], want), "warnings %q, want %q", r.Warnings, want)
	}
}
