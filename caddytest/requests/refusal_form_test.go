package requests

import (
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestRefusal_longWait has waits that timers of node cannot count. What clients sleep by is shorter, and spread by
// retry_jitter; what tells when the quota comes back is true.
func TestRefusal_longWait(t *testing.T) {
	const longest, year = 2_147_483, 365 * 24 * 60 * 60
	n := caddytest.InProcess(t, `route {
		redis_ratelimit /exact same 1 365d { name exact; algorithm gcra; headers x_ratelimit ietf }
		redis_ratelimit /jitter* {
			policy wide { key same; limit 3; window 365d; algorithm gcra }
			policy tight { key same; limit 1; window 365d; algorithm gcra }
			headers x_ratelimit ietf
			retry_jitter 1h
			usage /jitter/quota
		}
		redis_ratelimit /page same 1 365d { name page; algorithm gcra }
		respond ok
	}
	handle_errors { respond /page "{http.redis_ratelimit.retry_after}" }`)
	n.Get(t, "/exact")
	n.Get(t, "/jitter")
	n.Get(t, "/page")
	a := n.Get(t, "/exact").Want(t, http.StatusTooManyRequests, caddytest.Any, "Retry-After: 2147483", `RateLimit: "exact";r=0;t=2147483`)
	checkNear(t, "X-RateLimit-Reset in s", resetOf(t, a), year)
	seen := map[string]bool{}
	for range 10 {
		a = n.Get(t, "/jitter").Want(t, http.StatusTooManyRequests, caddytest.Any)
		wait := a.Header.Get("Retry-After")
		seen[wait] = true
		seconds := assert.NoError(strconv.Atoi(wait))(t)
		assert.ErrorIf(t, seconds < longest-3600 || seconds > longest, "Retry-After is %d", seconds)
		items := caddytest.CheckItemNames(t, a, "RateLimit", "wide", "tight")
		told, _ := items[1].Params.Get("t")
		assert.Equal(t, told, any(int64(seconds)), "t of the policy that denies")
		reset, _ := items[0].Params.Get("t")
		left, _ := reset.(int64)
		checkNear(t, "t of the other policy", float64(left), year/3)
		passes := resetOf(t, a)
		assert.ErrorIf(t, passes < year-60 || passes > year+3600, "X-RateLimit-Reset is in %v s", passes)
	}
	assert.ErrorIf(t, len(seen) < 5, "10 clients get %v", seen)
	page := n.Get(t, "/page").Want(t, http.StatusTooManyRequests, caddytest.Any, "Retry-After: 2147483")
	checkNear(t, "{http.redis_ratelimit.retry_after}", assert.NoError(strconv.ParseFloat(page.Body, 64))(t), year)
	quota := n.Get(t, "/jitter/quota").Want(t, http.StatusOK, caddytest.Any)
	type policy struct {
		RetryAfter float64 `json:"retry_after"`
	}
	policies := caddytest.ParseJSON[struct{ Policies []policy }](t, quota).Policies
	assert.FatalIf(t, len(policies) != 2, "got %v", quota)
	checkNear(t, "retry_after of usage", policies[1].RetryAfter, year)
	called := n.Send(t, http.MethodPost, n.URL+"/exact", "", "Content-Type: application/grpc")
	seconds := regexp.MustCompile(`retry in (\d+) s`).FindStringSubmatch(called.Header.Get("Grpc-Message"))
	assert.FatalIf(t, seconds == nil, "got %v", called)
	checkNear(t, "the wait of a call", assert.NoError(strconv.ParseFloat(seconds[1], 64))(t), year)
}

// checkNear checks a time in seconds that passes while the test runs.
func checkNear(t *testing.T, what string, got, want float64) {
	t.Helper()
	assert.ErrorIf(t, got > want+2 || got < want-60, "%s is %v, want %v or a bit less", what, got, want)
}
