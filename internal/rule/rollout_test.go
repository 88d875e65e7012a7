package rule

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

func rollout(t testing.TB, policy string, percent float64) *Rollout {
	t.Helper()
	return assert.NoError(ParseRollout(policy, &percent))(t)
}

// TestRollout_vectors has the least whole percentage that limits a key. Nodes of other versions, on other
// machines, must find the same.
func TestRollout_vectors(t *testing.T) {
	for _, v := range []struct {
		policy, key string
		least       float64
	}{
		{"api", "192.0.2.1", 53}, {"api", "192.0.2.2", 70}, {"api", "2001:db8::", 58}, {"api", "", 22}, {"api", "%~" + strings.Repeat("ab", 32), 30},
		{"login", "192.0.2.1", 91}, {"login", "alice", 94},
	} {
		least := 101.0
		for percent := 100.0; percent >= 0; percent-- {
			if rollout(t, v.policy, percent).selects(limiter.AsEncoded(v.key)) {
				least = percent
			}
		}
		assert.ErrorIf(t, least != v.least, "policy %s, key %q: limited from %v%%, want %v%%", v.policy, v.key, least, v.least)
	}
}

// TestParseRollout reads percentages, and writes them as they were.
func TestParseRollout(t *testing.T) {
	for _, percent := range []float64{0, 0.0001, 12.5, 99.9999} {
		assert.Equal(t, rollout(t, "api", percent).String(), strconv.FormatFloat(percent, 'f', -1, 64)+"%", "the percentage")
	}
	none := assert.NoError(ParseRollout("api", nil))(t)
	assert.ErrorIf(t, none != nil || rollout(t, "api", 100) != nil || none.String() != "", "all keys are selected by %v", none)
	for _, percent := range []float64{-1, 100.1, 0.00001, math.NaN()} {
		_, err := ParseRollout("api", &percent)
		assert.ErrorIf(t, err == nil, "%v%% is read", percent)
	}
}

// TestRollout_grows expects each percentage to limit so many keys, all of those of a smaller one among them.
func TestRollout_grows(t *testing.T) {
	const keys = 20_000
	percents := []float64{0, 0.01, 1, 10, 20, 50, 99, 99.9999, 100}
	limited := make([]int, len(percents))
	rollouts := make([]*Rollout, len(percents))
	for i, percent := range percents {
		rollouts[i] = rollout(t, "api", percent)
	}
	for n := range keys {
		key, before := limiter.EncodeKey(fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)), false
		for i := range rollouts {
			selected := rollouts[i].selects(key)
			if before && !selected {
				t.Fatalf("%v is limited at %v%% and not at %v%%", key, percents[i-1], percents[i])
			}
			if before = selected; selected {
				limited[i]++
			}
		}
	}
	for i, percent := range percents {
		want := percent / 100 * keys
		if math.Abs(float64(limited[i])-want) > 5*math.Sqrt(want)+1 || (percent == 0 && limited[i] > 0) || (percent == 100 && limited[i] < keys) {
			t.Errorf("%v%% limits %d of %d keys", percent, limited[i], keys)
		}
	}
}

// TestRollout_policies expects each policy to be tried with keys of its own.
func TestRollout_policies(t *testing.T) {
	a, b, both := rollout(t, "a", 50), rollout(t, "b", 50), 0
	for n := range 10_000 {
		if key := limiter.EncodeKey(fmt.Sprint(n)); a.selects(key) && b.selects(key) {
			both++
		}
	}
	assert.ErrorIf(t, both < 2250 || both > 2750, "two policies limit %d of 10,000 keys both, want a quarter", both)
}

// TestRollout_refusals has requests that yield no key, though their clients could have one.
func TestRollout_refusals(t *testing.T) {
	key := assert.NoError(ParseKey("{http.request.header.X-Key}", exact))(t)
	for percent, want := range map[float64][]int{0: {0, 0, 0}, 1: {0, 400, 425}, 100: {400, 400, 425}} {
		rules := manyRules(t, 2, 0)[:1]
		rules[0].Key, rules[0].Rollout = key, rollout(t, "api", percent)
		empty, repl := keyRequest("192.0.2.1", nil)
		repeated, early := empty.Clone(empty.Context()), empty.Clone(empty.Context())
		repeated.Header["X-Key"], early.TLS = []string{"a", "b"}, new(tls.ConnectionState)
		for i, r := range []*http.Request{empty, repeated, early} {
			rules[0].OnEmptyKey = EmptyKeyReject
			if r == early {
				rules[0].OnEmptyKey = EmptyKeyClientIP
			}
			refusal := caddyhttp.HandlerError{}
			if errors.As(NewSet(rules).Evaluate(r, repl, new(Evaluation)), &refusal); refusal.StatusCode != want[i] {
				t.Errorf("enforced for %v%%, request %d: got %d, want %d", percent, i, refusal.StatusCode, want[i])
			}
		}
	}
}

func TestParseFraction(t *testing.T) {
	for percent, want := range map[float64]Fraction{0: 0, 0.0001: 1, 0.1: 1000, 0.3: 3000, 12.5: 125_000, 33.3333: 333_333, 99.9999: 999_999, 100: whole} {
		if got, err := ParseFraction(percent); err != nil || got != want || got.Percent() != percent {
			t.Errorf("%v%%: got %d, %v, shown as %v", percent, got, err, got)
		}
	}
	for _, percent := range []float64{-0.0001, -1, 100.0001, 1e9, math.Inf(1), math.NaN(), 0.00001, 33.33333} {
		got, err := ParseFraction(percent)
		assert.ErrorIf(t, err == nil, "%v%% is read as %v", percent, got)
	}
}

func TestFraction_Of(t *testing.T) {
	for _, c := range []struct {
		percent float64
		of, to  int64
	}{{80, 5, 4}, {80, 4, 4}, {50, 1, 1}, {0.0001, 10, 1}, {100, 1<<53 - 1, 1<<53 - 1}, {99.9999, 1 << 53, 9007190247541738}, {1, 0, 0}} {
		fraction, err := ParseFraction(c.percent)
		got := fraction.Of(c.of)
		assert.ErrorIf(t, err != nil || got != c.to, "%v%% of %d: got %d, want %d", c.percent, c.of, got, c.to)
	}
}
