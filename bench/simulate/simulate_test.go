package main

import (
	"math"
	"strings"
	"testing"
)

const minute = 60 * second

// example is a busy key of a limit that is never used up, on a link of a local network.
func example(algorithm string, limit, window int64) scenario {
	return scenario{
		policy: policy{algorithm, limit, window, limit}, nodes: 8, keys: 1, rate: 10_000, roundTrip: 300,
		seconds: 20, leases: true, costs: costs{lease: 1}, seed: 1,
	}
}

func run1(t *testing.T, sc scenario) result {
	t.Helper()
	r, err := simulate(sc)
	if err != nil {
		t.Fatal(err)
	}
	if r.Excess != 0 {
		t.Errorf("%s: %d of %d admitted requests are denied by the algorithm", sc.policy.algorithm, r.Excess, r.Admitted)
	}
	return r
}

func perRequest(r result) float64 { return float64(r.Decisions) / float64(r.Requests) }

// near reports whether a number is within a fraction of another one.
func near(got, want, within float64) bool { return math.Abs(got-want) <= within*want }

// perSecond is one node that gets twice its limit of a second.
func perSecond(sc *scenario) {
	sc.policy.limit, sc.policy.window, sc.rate = 1000, second, 2000
	sc.nodes, sc.seconds, sc.roundTrip = 1, 60, 200
}

// TestSimulate_published compares with what the program of the design of leases has found, which shares no
// code with this one. Far from Redis a lease that is used up too early costs all requests of a round trip, so
// that the decisions depend on a few such moments.
func TestSimulate_published(t *testing.T) {
	type numbers struct{ today, leased float64 } // decisions a request
	each := func(n numbers) map[string]numbers {
		return map[string]numbers{fixedWindow: n, slidingWindow: n, slidingLog: n, tokenBucket: n}
	}
	tests := []struct {
		name     string
		change   func(sc *scenario)
		want     map[string]numbers
		admitted float64 // per cent of exact, at least
		within   float64 // of the decisions with leases
	}{
		{"below the limit", func(sc *scenario) { sc.seconds = 10 }, each(numbers{1, 0.010}), 100, 0.12},
		{"below the limit, Redis 20 ms away", func(sc *scenario) { sc.nodes, sc.seconds, sc.roundTrip = 2, 40, 20_000 }, each(numbers{1, 0.007}), 99.9, 0.3},
		{"twice the limit of a second", perSecond, map[string]numbers{
			fixedWindow: {0.50, 0.07}, slidingWindow: {0.89, 0.89}, slidingLog: {0.59, 0.58}, tokenBucket: {0.90, 0.89},
		}, 99.9, 0.12},
		{"twice the limit of a minute", func(sc *scenario) { sc.policy.limit, sc.seconds = 300_000, 150 }, map[string]numbers{
			fixedWindow: {0.60, 0.007}, slidingWindow: {0.80, 0.60}, slidingLog: {0.60, 0.010}, tokenBucket: {1, 0.60},
		}, 99.4, 0.12},
		{"a cold key", func(sc *scenario) { sc.policy.limit, sc.rate, sc.seconds = 10, 5, 1800 }, nil, 99.9, 0.01},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, algorithm := range algorithms {
				sc := example(algorithm, 1_000_000, minute)
				test.change(&sc)
				sc.policy.burst = sc.policy.limit
				leased := run1(t, sc)
				sc.leases = false
				today := run1(t, sc)
				want, known := test.want[algorithm]
				if !known { // leases change nothing
					want = numbers{perRequest(today), perRequest(today)}
				}
				if !near(perRequest(today), want.today, 0.03) || !near(perRequest(leased), want.leased, test.within) {
					t.Errorf("%s: %.4f decisions a request, %.4f with leases; want %v", algorithm, perRequest(today), perRequest(leased), want)
				}
				if leased.admittedOfExact() < test.admitted || leased.admittedOfExact() > 100.1 {
					t.Errorf("%s: admits %.2f %% of exact, want %.2f at least", algorithm, leased.admittedOfExact(), test.admitted)
				}
			}
		})
	}
}

// TestSimulate_excess shows that the check of what was admitted can fail: nodes that spend a lease for
// longer than Redis reserves it admit too much.
func TestSimulate_excess(t *testing.T) {
	for _, algorithm := range algorithms {
		p := policy{algorithm, 100, second, 100}
		s := &simulation{scenario: scenario{policy: p, keys: 1}, admitted: [][]int64{nil}, core: redisCore{}}
		for i := range int64(150) {
			s.now = i
			s.admit(0, i)
		}
		if s.sum(); s.result.Excess != 50 {
			t.Errorf("%s: 150 at once of 100 allowed: %d found", algorithm, s.result.Excess)
		}
	}
}

func TestSimulate_core(t *testing.T) {
	sc := example(slidingWindow, 1_000_000, minute)
	sc.leases, sc.seconds, sc.costs = false, 5, costs{run: 10, decision: 5, lease: 1}
	r := run1(t, sc)
	// 50,000 decisions take 5 µs each, and their runs 10 µs each.
	want := (50_000*5 + 50_000/r.Batch*10) / (5 * second)
	if !near(r.Core, want, 0.03) {
		t.Errorf("the core is busy for %.3f of the time in runs of %.1f, want %.3f", r.Core, r.Batch, want)
	}
	if sc.costs.decision = 200; run1(t, sc).Core < 0.99 {
		t.Errorf("at twice what a core can do it is busy for %.3f of the time", r.Core)
	}
}

func TestRun_prints_both(t *testing.T) {
	var out strings.Builder
	if err := run(strings.Fields("-duration 2s -nodes 2 -rate 5000 -both"), &out); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(out.String(), "\n"); len(lines) != 5 || !strings.HasPrefix(lines[2], "| 2 | no | 1.0000 |") || !strings.HasPrefix(lines[3], "| 2 | yes | 0.0") {
		t.Errorf("got:\n%s", out.String())
	}
}

func TestRun_refuses(t *testing.T) {
	for _, args := range []string{
		"-algorithm gcra", "-limit 0", "-window 1us", "-limit 1000000000000", "-nodes 0", "-nodes 1,two", "-rate 0", "-rate NaN", "-rate +Inf", "-round-trip -1s",
		"-warm-up 60s",
	} {
		if err := run(strings.Fields(args), new(strings.Builder)); err == nil || !strings.Contains(err.Error(), strings.Fields(args)[0]) {
			t.Errorf("%s: got %v, want an error that names it", args, err)
		}
	}
}
