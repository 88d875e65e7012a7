package requests

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestPlaceholders_undecided sends requests that a limiter is in the way of, and that no policy decides: placeholders are
// empty in answers, headers and error routes, also for a 429 of another handler. Another limiter of the request may decide.
func TestPlaceholders_undecided(t *testing.T) {
	const shown = `"` + `{http.redis_ratelimit.decision}|{http.redis_ratelimit.reason}|{http.redis_ratelimit.source}|{http.redis_ratelimit.policy}|` +
		`{http.redis_ratelimit.limit}|{http.redis_ratelimit.remaining}|{http.redis_ratelimit.retry_after}|{http.redis_ratelimit.reset_after}|` +
		`{http.redis_ratelimit.dry_run}|{http.redis_ratelimit.pass}` + `"`
	const nothing = "|||||||||"
	caddytest.OnBothStores(t, func(t *testing.T, global, source string) {
		n := caddytest.Start(t, caddytest.Config(global, `
			header >X-Shown `+shown+`
			redis_ratelimit {
				policy api {
					match path /api* /both*
					key {header.X-Key}
					limit 2
					window 24h
					on_empty_key reject
				}
			}
			redis_ratelimit {
				policy second {
					match path /second* /both*
					limit 5
					window 24h
				}
			}
			error /refused 429
			respond `+shown+`
			handle_errors {
				@limited vars {http.redis_ratelimit.decision} denied
				respond @limited "limited by {http.redis_ratelimit.policy}"
				header X-Shown `+shown+`
				respond `+shown+`
			}`))
		for _, test := range []struct {
			path, header string
			status       int
			body         string
		}{
			{"/free", "", http.StatusOK, nothing},
			{"/refused", "", http.StatusTooManyRequests, nothing},
			{"/api", "", http.StatusBadRequest, nothing}, // on_empty_key reject
			{"/second", "", http.StatusOK, "allowed||" + source + "|second|5|4|0|*||"},
			{"/both", "X-Key: a", http.StatusOK, "allowed||" + source + "|api|2|1|0|*||"},
			{"/api", "X-Key: a", http.StatusOK, "allowed||" + source + "|api|2|0|0|*||"},
			{"/api", "X-Key: a", http.StatusTooManyRequests, "limited by api"},
		} {
			var headers []string
			if test.header != "" {
				headers = append(headers, test.header)
			}
			a := n.Get(t, test.path, headers...).Want(t, test.status, test.body)
			if test.body == nothing && a.Header.Get("X-Shown") != nothing || strings.Contains(a.Header.Get("X-Shown"), "{") {
				t.Errorf("%s: X-Shown is %q", test.path, a.Header.Get("X-Shown"))
			}
		}
	})
}

// TestPlaceholders_notInTheWay has a limiter only for other requests: nothing sets the placeholders, which respond then
// writes as they are. A matcher of their values asks first.
func TestPlaceholders_notInTheWay(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", `
		redis_ratelimit /api {client_ip} 1 24h
		error /refused 429
		respond ok
		handle_errors 429 {
			@limited vars {http.redis_ratelimit.decision} denied
			respond @limited "limited by {http.redis_ratelimit.policy}"
			respond "refused, {http.redis_ratelimit.policy}"
		}`))
	n.Get(t, "/refused").Want(t, http.StatusTooManyRequests, "refused, {http.redis_ratelimit.policy}")
	n.Get(t, "/api").Want(t, http.StatusOK, "ok")
	n.Get(t, "/api").Want(t, http.StatusTooManyRequests, "limited by default")
}
