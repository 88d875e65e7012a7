package gate

import (
	"net/http"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// CookieWatch is the watch of a cookie in the key of a policy.
type CookieWatch struct {
	Policy, Cookie string
	*storepool.CookieWatch
}

// lookAtCookies looks at a request that was let through, and at the header of its response.
func (l *Limiter) lookAtCookies(r *http.Request, response http.Header) {
	for i := range l.Cookies {
		if w := &l.Cookies[i]; !w.IsDone() && w.Look(r, response) {
			l.OnFreshCookie(w)
		}
	}
}
