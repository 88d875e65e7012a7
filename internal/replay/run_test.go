package replay

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/terminal"
)

// fakeEngine decides as a test says.
type fakeEngine struct {
	policies []PolicyResult
	play     func(e *accesslog.Entry) *Verdict
}

func (f fakeEngine) Policies() []PolicyResult         { return f.policies }
func (f fakeEngine) Play(e *accesslog.Entry) *Verdict { return f.play(e) }
func (f fakeEngine) Skipped() []string                { return nil }
func (f fakeEngine) KeyHeaders() []string             { return nil }
func (f fakeEngine) Warnings() []string               { return nil }

// everywhere is the same verdict on every request.
func everywhere(v Verdict) func(*accesslog.Entry) *Verdict {
	return func(*accesslog.Entry) *Verdict { return &v }
}

// commonLine is a request in the Common Log Format, so many seconds after the first.
func commonLine(second int) string {
	return fmt.Sprintf("192.0.2.1 - - [%s] \"GET / HTTP/1.1\" 200 5\n", time.Unix(1_750_000_000+int64(second), 0).UTC().Format("02/Jan/2006:15:04:05 -0700"))
}

// runOn plays a log.
func runOn(t *testing.T, log string, engine Engine, o Options) *Result {
	t.Helper()
	reader, err := accesslog.Open(accesslog.Options{Files: []string{"-"}, Stdin: strings.NewReader(log)})
	redistest.Must(t, err)
	t.Cleanup(func() { _ = reader.Close() })
	result, err := Run(reader, engine, o)
	redistest.Must(t, err)
	return result
}

func tableOf(t *testing.T, r *Result) string {
	t.Helper()
	var table strings.Builder
	r.WriteTable(terminal.New(&table))
	return table.String()
}

func TestRun_empty_keys(t *testing.T) {
	for policies, want := range map[int]string{
		1:  "keys that are empty in this log: {user} of policy p0 for 1 request; if",
		2:  "keys that are empty in this log: {user} of policy p0 for 1 request, {user} of policy p1 for 1 request; if",
		50: "keys that are empty in this log: {user} of policy p0 for 1 request, {user} of policy p1 for 1 request, {user} of policy p2 for 1 request, and of 47 more; if",
	} {
		engine := fakeEngine{}
		v := Verdict{Outcome: Allowed}
		for i := range policies {
			engine.policies = append(engine.policies, PolicyResult{Name: fmt.Sprint("p", i), Key: "{user}", Limit: 5, Window: time.Minute})
			v.Decisions = append(v.Decisions, Decision{Policy: i, Key: "a", Weight: 1, EmptyKey: true})
		}
		engine.play = everywhere(v)
		r := runOn(t, commonLine(0), engine, Options{})
		redistest.ErrorIf(t, len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], want), "%d policies: %q, want %q", policies, r.Warnings, want)
	}
}

func TestRun_Worst(t *testing.T) {
	engine := fakeEngine{policies: []PolicyResult{{Name: "p", Limit: 1, Window: time.Minute}}}
	engine.play = everywhere(Verdict{Outcome: Denied, Decisions: []Decision{{Key: "a", Weight: 1, Denied: true}}})
	for worst, want := range map[int]int{-1: 0, 0: 1, 1: 1} {
		r := runOn(t, commonLine(0), engine, Options{Worst: worst})
		redistest.ErrorIf(t, len(r.Policies[0].Worst) != want, "worst %d: %+v", worst, r.Policies[0].Worst)
	}
}

func TestResult_MarshalJSON(t *testing.T) {
	engine := fakeEngine{policies: []PolicyResult{{Name: "p", Limit: 1, Window: 90 * time.Second, MaxDelay: 1500 * time.Millisecond}}}
	engine.play = everywhere(Verdict{Outcome: Denied, Decisions: []Decision{{Key: "a", Weight: 1, Denied: true}}})
	text, err := json.Marshal(runOn(t, commonLine(0)+commonLine(2), engine, Options{}))
	redistest.Must(t, err)
	for _, want := range []string{`"warnings":[]`, `"step":1`, `"window":90`, `"max_delay":1.5`, `"longest_lasted":2`, `"policies":[{`} {
		if !strings.Contains(string(text), want+",") && !strings.Contains(string(text), want+"}") && !strings.HasSuffix(want, "{") {
			t.Errorf("no %s in %s", want, text)
		}
	}
	redistest.ErrorIf(t, strings.Contains(string(text), "null"), "null in %s", text)
}

func TestResult_MarshalJSON_escapes(t *testing.T) {
	hostile := "\u009b31m \u202e \x7f \u2028 \U000e0001 é 字 \x1b"
	text, err := json.Marshal(&Result{Policies: []PolicyResult{{Worst: []ClientResult{{Key: hostile}}}}, Suggestions: &Suggestions{Key: hostile}})
	redistest.Must(t, err)
	shown := escape.Text(string(text))
	redistest.ErrorIf(t, shown != string(text), "%q does not print", text)
	var back struct {
		Policies []struct {
			Worst []struct{ Key string } `json:"worst_clients"`
		}
		Suggestions struct{ Key string }
	}
	if err := json.Unmarshal(text, &back); err != nil || back.Policies[0].Worst[0].Key != hostile || back.Suggestions.Key != hostile {
		t.Errorf("%q and %q, %v", back.Policies, back.Suggestions, err)
	}
}
