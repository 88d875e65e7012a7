package replay

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// fakeEngine decides as a test says.
type fakeEngine struct {
	policies []PolicyResult
	play     func(e *accesslog.Entry) *Decision
}

func (f fakeEngine) Policies() []PolicyResult          { return f.policies }
func (f fakeEngine) Play(e *accesslog.Entry) *Decision { return f.play(e) }
func (f fakeEngine) Skipped() []string                 { return nil }
func (f fakeEngine) KeyHeaders() []string              { return nil }
func (f fakeEngine) Warnings() []string                { return nil }

// everywhere is the same decision about every request.
func everywhere(v Decision) func(*accesslog.Entry) *Decision {
	return func(*accesslog.Entry) *Decision { return &v }
}

// commonLine is a request in the Common Log Format, so many seconds after the first.
func commonLine(second int) string {
	return fmt.Sprintf("192.0.2.1 - - [%s] \"GET / HTTP/1.1\" 200 5\n", time.Unix(1_750_000_000+int64(second), 0).UTC().Format("02/Jan/2006:15:04:05 -0700"))
}

// runOn plays a log.
func runOn(t *testing.T, log string, engine Engine, o RunOptions) *Result {
	t.Helper()
	reader := assert.NoError(accesslog.Open(accesslog.ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(log)}))(t)
	t.Cleanup(func() { _ = reader.Close() })
	return assert.NoError(Run(reader, engine, o))(t)
}

// tableSays prints a result, and wants texts in it once each.
func tableSays(t *testing.T, r *Result, wants ...string) string {
	t.Helper()
	var table strings.Builder
	r.WriteTable(display.NewWriter(&table))
	for _, want := range wants {
		assert.ErrorIf(t, strings.Count(table.String(), want) != 1, "%q does not stand once in\n%s", want, &table)
	}
	return table.String()
}

func TestRun_empty_keys(t *testing.T) {
	for policies, want := range map[int]string{
		1:  "keys that are empty in this log: {user} of policy p0 for 1 request; if",
		2:  "keys that are empty in this log: {user} of policy p0 for 1 request, {user} of policy p1 for 1 request; if",
		50: "keys that are empty in this log: {user} of policy p0 for 1 request, {user} of policy p1 for 1 request, {user} of policy p2 for 1 request, and of 47 more; if",
	} {
		engine := fakeEngine{}
		v := Decision{Outcome: limiter.OutcomeAllowed}
		for i := range policies {
			engine.policies = append(engine.policies, PolicyResult{PolicyDescription: display.PolicyDescription{Name: fmt.Sprint("p", i), Limit: 5, Window: display.DurationSeconds(time.Minute), Handlers: []display.Handler{{Key: "{user}"}}}})
			v.Policies = append(v.Policies, PolicyDecision{Policy: i, Key: "a", Weight: 1, EmptyKey: true})
		}
		engine.play = everywhere(v)
		r := runOn(t, commonLine(0), engine, RunOptions{})
		assert.ErrorIf(t, len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], want), "%d policies: %q, want %q", policies, r.Warnings, want)
	}
}

func TestRun_Worst(t *testing.T) {
	engine := fakeEngine{policies: []PolicyResult{{PolicyDescription: display.PolicyDescription{Name: "p", Limit: 1, Window: display.DurationSeconds(time.Minute)}}}}
	engine.play = everywhere(Decision{Outcome: limiter.OutcomeDenied, Policies: []PolicyDecision{{Key: "a", Weight: 1, Denied: true}}})
	for worst, want := range map[int]int{0: 0, 1: 1, 2: 1} {
		r := runOn(t, commonLine(0), engine, RunOptions{Worst: worst})
		assert.ErrorIf(t, len(r.Policies[0].Worst) != want, "worst %d: %+v", worst, r.Policies[0].Worst)
	}
}

// TestRun_outcomes counts what has an outcome of its own.
func TestRun_outcomes(t *testing.T) {
	outcomes := []limiter.Outcome{limiter.OutcomeExempt, limiter.OutcomeUnlimited, limiter.OutcomeRejected, limiter.OutcomeUnplayable, limiter.OutcomeAllowed}
	engine, played := fakeEngine{}, 0
	engine.play = func(*accesslog.Entry) *Decision {
		played++
		return &Decision{Outcome: outcomes[played-1]}
	}
	r := runOn(t, strings.Repeat(commonLine(0), len(outcomes)), engine, RunOptions{})
	assert.ErrorIf(t, r.Requests != 5 || r.Exempt != 1 || r.Unlimited != 1 || r.Rejected != 1 || r.Unplayable != 1 || r.Denied != 0, "%+v", r)
}

// TestTimeline counts random requests of years in few steps, and then each step by itself.
func TestTimeline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := &timeline{series: make([][]counts, 1)}
		now, longest := rapid.Int64Range(0, 2e15).Draw(t, "first"), rapid.SampledFrom([]int64{1e6, 1e9, 1e12, 1e14}).Draw(t, "longest")
		var all []int64
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			all = append(all, now)
			count(&line.series[0][line.at(now)], now&1)
			now += rapid.Int64Range(0, longest).Draw(t, "pause")
		}
		steps := line.buckets(0)
		if len(steps) > maxBuckets {
			t.Fatalf("%d steps", len(steps))
		}
		for _, at := range all {
			step := &steps[at/line.micros()-line.first]
			if begins := step.Begins.UnixMicro(); begins > at || at >= begins+line.micros() {
				t.Fatalf("the step of %d begins at %d", at, begins)
			}
			step.Requests--
			step.Denied -= at & 1
		}
		for _, step := range steps {
			if step.Requests != 0 || step.Denied != 0 {
				t.Fatalf("%+v are too many", step)
			}
		}
	})
}

func TestResult_MarshalJSON(t *testing.T) {
	engine := fakeEngine{policies: []PolicyResult{{PolicyDescription: display.PolicyDescription{Name: "p", Limit: 1, Window: display.DurationSeconds(90 * time.Second), MaxDelay: new(display.DurationSeconds(1500 * time.Millisecond)), Handlers: []display.Handler{{Cost: "{cost}"}}}}}}
	engine.play = everywhere(Decision{Outcome: limiter.OutcomeDenied, Policies: []PolicyDecision{{Key: "a", Weight: 1, Denied: true}}})
	text := assert.NoError(json.Marshal(runOn(t, commonLine(0)+commonLine(2)+commonLine(20)+commonLine(21), engine, RunOptions{Worst: 1})))(t)
	for _, want := range []string{`"warnings":[]`, `"step":1`, `"window":90`, `"max_delay":1.5`, `"longest_lasted":21`, `"units":{"offered":4`,
		`"peak_minute":{"begins":"2025-06-15T15:06:00Z","requests":2,"denied":2}`, `"policies":[{`} {
		if !strings.Contains(string(text), want+",") && !strings.Contains(string(text), want+"}") && !strings.HasSuffix(want, "{") {
			t.Errorf("no %s in %s", want, text)
		}
	}
	assert.ErrorIf(t, strings.Contains(string(text), "null"), "null in %s", text)
}

func TestResult_MarshalJSON_escapes(t *testing.T) {
	hostile := "\u009b31m \u202e \x7f \u2028 \U000e0001 é 字 \x1b"
	text, err := json.Marshal(&Result{Policies: []PolicyResult{{Worst: []clientResult{{Key: hostile}}}}, Suggestions: &suggestions{Key: hostile}})
	assert.Must(t, err)
	assert.ErrorIf(t, display.Escape(string(text)) != string(text), "%q does not print", text)
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

// ran is a request of a key, from an instant to another.
type ran struct {
	key                string
	began, end, weight int64
}

// drawRuns draws requests in the order of their starts, of a few keys and for some minutes.
func drawRuns(t *rapid.T) []ran {
	const second, first = 1_000_000, 1_750_000_000_000_000
	at, runs := int64(first), []ran{}
	for range rapid.IntRange(1, 60).Draw(t, "requests") {
		at += rapid.SampledFrom([]int64{0, 1, second / 3, second, 7 * second, 20 * second}).Draw(t, "pause")
		took := rapid.SampledFrom([]int64{0, 1, second / 3, second, 10 * second, 300 * second}).Draw(t, "took")
		runs = append(runs, ran{
			key: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"), began: at, end: at + took,
			weight: rapid.SampledFrom([]int64{1, 1, 1, 2, 5, 0}).Draw(t, "weight"),
		})
	}
	return runs
}

// runningAt counts what a key has running when a request begins, of those before it. Each of the others of the
// same instant is over or counts; under a limit those that it denied are left out.
func runningAt(runs []ran, key string, at int64, denied []bool) (n int64) {
	for i, r := range runs {
		if r.key == key && r.began <= at && at < r.end && (i >= len(denied) || !denied[i]) {
			n += r.weight
		}
	}
	return n
}

// TestSuggester_running_brute_force compares what limits of running requests deny with a count over all requests for each
// of them.
func TestSuggester_running_brute_force(t *testing.T) {
	policy := suggestPolicy(t, limiter.Settings{MaxConcurrent: 2})
	rapid.Check(t, func(t *rapid.T) {
		runs := drawRuns(t)
		s, err := NewSuggester(policy, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			s.add(r.key, r.began, r.end, r.weight, kept)
		}
		ladders, err := s.play()
		if err != nil {
			t.Fatal(err)
		}
		for _, limit := range ladders[0].Limits {
			denied, count := make([]bool, len(runs)), int64(0)
			for i, r := range runs {
				if denied[i] = r.weight > 0 && runningAt(runs[:i], r.key, r.began, denied[:i])+r.weight > limit.Limit; denied[i] {
					count++
				}
			}
			if limit.Denied != count {
				t.Fatalf("limit %d: %d denied, want %d", limit.Limit, limit.Denied, count)
			}
		}
	})
}

// TestRunning_brute_force compares the sweep with a count over all requests for each of them.
func TestRunning_brute_force(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := drawRuns(t)
		sweep := newRunning()
		peaks, mostTogether := map[string]int64{}, int64(0)
		for i, r := range runs {
			sweep.add(r.key, r.began, r.end, r.weight)
			together := int64(0)
			for _, key := range []string{"a", "b", "c"} {
				n := runningAt(runs[:i], key, r.began, nil)
				if key == r.key {
					n += r.weight
				}
				peaks[key] = max(peaks[key], n)
				together += n
			}
			mostTogether = max(mostTogether, together)
		}
		result := sweep.result(10, 0)
		for _, key := range result.Busiest {
			if key.Peak != peaks[key.Key] {
				t.Fatalf("%s: a peak of %d, want %d", key.Key, key.Peak, peaks[key.Key])
			}
		}
		if result.Together != mostTogether || result.Peak != max(peaks["a"], peaks["b"], peaks["c"]) {
			t.Fatalf("%+v, want %d together", result, mostTogether)
		}
	})
}

func TestRunning_result(t *testing.T) {
	const second, first = 1_000_000, 1_750_000_000_000_000
	r := newRunning()
	if r.result(5, 0) != nil {
		t.Error("a result without a request")
	}
	r.add("unknown", first, 0, 1)
	if r.result(5, 0) != nil {
		t.Error("a result without a duration")
	}
	for i := range 5 {
		r.add("a", first, first+10*second, 1)
		r.add(fmt.Sprint("b", i), first+second, first+2*second, 1)
	}
	r.add("a", first+10*second, first+11*second, 1) // begins as the others end
	got := r.result(2, 2)
	if got.Requests != 12 || got.Untimed != 1 || got.Clients != 6 || got.Peak != 5 || got.Together != 10 || len(got.Busiest) != 2 ||
		got.Busiest[0].Key != "a" || got.Busiest[0].Requests != 6 || !got.TogetherAt.Equal(instant(first+second)) {
		t.Errorf("%+v", got)
	}
	if want := (peakRate{1, 1, 5}); got.Peaks[0] != want {
		t.Errorf("peaks %+v", got.Peaks)
	}
}

func TestWriteTable_units(t *testing.T) {
	policy := PolicyResult{PolicyDescription: display.PolicyDescription{Name: "p", Limit: 5, Window: display.DurationSeconds(time.Minute)}}
	text := tableSays(t, &Result{Policies: []PolicyResult{policy}})
	assert.ErrorIf(t, strings.Contains(text, "unit"), "%v", text)
	for want, units := range map[string]Units{
		"  30,000 units offered, 20,000 admitted, 10,000 denied (33.3 %)\n":                                      {Offered: 30_000, Admitted: 20_000, Denied: 10_000},
		"20 admitted, 0 denied (0 %), 10 denied by other policies\n":                                             {Offered: 30, Admitted: 20, DeniedByOthers: 10},
		"  3 units offered, 3 admitted, 0 denied (0 %); after responses 5,000 charged, 2 refunded: 5,001 used\n": {Offered: 3, Admitted: 3, Charged: 5_000, Refunded: 2},
		": 4,611,686,018,427,387,903 used\n":                                                                     {Offered: math.MaxInt64, Admitted: math.MaxInt64, Charged: 9, Refunded: 1 << 62},
	} {
		policy.Units = &units
		tableSays(t, &Result{Policies: []PolicyResult{policy}}, want)
	}
}

func TestUnits_sum_stays(t *testing.T) {
	var u Units
	for range 3 {
		u.add(&PolicyDecision{Weight: 1 << 62, Taken: true, Charged: 1 << 62})
		u.add(&PolicyDecision{Weight: 1 << 62, Denied: true})
	}
	if u != (Units{Offered: math.MaxInt64, Admitted: math.MaxInt64, Denied: math.MaxInt64, Charged: math.MaxInt64}) {
		t.Errorf("%+v", u)
	}
}
