package gate

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// TestLimiter_Follow has rules with count_if, a cost and both see a response at its header and at its end.
func TestLimiter_Follow(t *testing.T) {
	t.Parallel()
	policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "followed", Limit: 1000, Window: time.Hour}))(t)
	cost := assert.NoError(rule.ParseCost(rule.ResponseBytes, 0))(t)
	countIf := &caddyhttp.ResponseMatcher{StatusCode: []int{401}}
	for name, test := range map[string]struct {
		rule     rule.Rule
		status   int // as it is judged at the header; 0: all count
		atHeader bool
		bytes    int64
		cost     int64
	}{
		"count_if counts":              {rule.Rule{CountIf: countIf}, 401, true, 40, 100},
		"count_if does not count":      {rule.Rule{CountIf: countIf}, 200, true, 40, 0},
		"the client left":              {rule.Rule{CountIf: countIf}, 0, true, 40, 100},
		"a cost":                       {rule.Rule{Cost: cost}, 200, false, 40, 40},
		"more than can be charged":     {rule.Rule{Cost: cost}, 200, false, math.MaxInt64, limiter.MaxCharge},
		"count_if counts, and a cost":  {rule.Rule{CountIf: countIf, Cost: cost}, 401, false, 40, 40},
		"neither is counted nor costs": {rule.Rule{CountIf: countIf, Cost: cost}, 200, true, 40, 0},
	} {
		test.rule.Policy, test.rule.Numbers.Weight = policy, 100
		l := New(Limiter{Rules: rule.NewSet([]rule.Rule{test.rule})})
		made := Decision{Checks: []limiter.Check{{Policy: policy, Weight: 100}}}
		passed, waits := l.Pending(&made, 0)
		assert.FatalIf(t, !waits, "%s: nothing waits for the response", name)
		response := rule.Response{Request: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), Status: test.status, Begun: true, Bytes: test.bytes}
		effect, waits := l.Settle(&passed, &response)
		assert.ErrorIf(t, waits == test.atHeader, "%s: it waits for the end: %t", name, waits)
		if waits {
			response.Ended, response.Complete = true, true
			effect, _ = l.Settle(&passed, &response)
		}
		assert.ErrorIf(t, effect.Cost != test.cost || effect.Counts != (test.status != 200 || test.rule.CountIf == nil),
			"%s: got the cost %d, counted %t, want %d", name, effect.Cost, effect.Counts, test.cost)
	}
}
