package gate

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// TestLimiter_Follow has rules with count_if, a cost and both see a response at its header and at its end.
func TestLimiter_Follow(t *testing.T) {
	t.Parallel()
	policy, err := limiter.NewPolicy(limiter.Settings{Name: "followed", Limit: 1000, Window: time.Hour})
	redistest.Must(t, err)
	cost, err := rule.ParseCost(rule.ResponseBytes, 0)
	redistest.Must(t, err)
	countIf := &caddyhttp.ResponseMatcher{StatusCode: []int{401}}
	for name, test := range map[string]struct {
		rule     rule.Rule
		status   int // as it is judged at the header; 0: all count
		atHeader bool
		cost     int64
	}{
		"count_if counts":              {rule.Rule{CountIf: countIf}, 401, true, 100},
		"count_if does not count":      {rule.Rule{CountIf: countIf}, 200, true, 0},
		"the client left":              {rule.Rule{CountIf: countIf}, 0, true, 100},
		"a cost":                       {rule.Rule{Cost: cost}, 200, false, 40},
		"count_if counts, and a cost":  {rule.Rule{CountIf: countIf, Cost: cost}, 401, false, 40},
		"neither is counted nor costs": {rule.Rule{CountIf: countIf, Cost: cost}, 200, true, 0},
	} {
		test.rule.Policy, test.rule.Numbers.Weight = policy, 100
		l := New(Limiter{Rules: rule.NewSet([]rule.Rule{test.rule})})
		q := Question{Checks: []limiter.Check{{Policy: policy, Weight: 100}}}
		passed, waits := l.Passed(&q, 0)
		redistest.FatalIf(t, !waits, "%s: nothing waits for the response", name)
		response := rule.Response{Request: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), Status: test.status, Begun: true, Bytes: 40}
		effect, waits := l.Follow(&passed, &response)
		redistest.ErrorIf(t, waits == test.atHeader, "%s: it waits for the end: %t", name, waits)
		if waits {
			response.Ended, response.Complete = true, true
			effect, _ = l.Follow(&passed, &response)
		}
		if effect.Cost != test.cost || effect.Counts != (test.status != 200 || test.rule.CountIf == nil) {
			t.Errorf("%s: got the cost %d, counted %t, want %d", name, effect.Cost, effect.Counts, test.cost)
		}
	}
}
