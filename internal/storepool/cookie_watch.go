package storepool

import (
	"net/http"
	"sync"
	"sync/atomic"
)

// The first requests with a cookie that are looked at, and how many of their responses set it to another value where the cookie
// is a fresh quota for each request.
const (
	firstWithCookie = 100
	freshCookies    = 90
)

// CookieWatch finds out whether responses set the cookie anew that a policy counts by, as frameworks do whose session is in
// the cookie. It looks at the first 100 requests with the cookie.
type CookieWatch struct {
	name string
	done atomic.Bool

	mu          sync.Mutex
	seen, fresh int
}

// NewCookieWatch returns the watch of a cookie.
func NewCookieWatch(name string) *CookieWatch { return &CookieWatch{name: name} }

// IsDone reports whether nothing is looked for any more.
func (w *CookieWatch) IsDone() bool { return w.done.Load() }

// Look looks at a request and the header of its response. It reports once that nearly all responses set the cookie anew.
func (w *CookieWatch) Look(r *http.Request, response http.Header) (isFresh bool) {
	sent := r.CookiesNamed(w.name)
	if len(sent) == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == firstWithCookie {
		return false
	}
	if w.seen++; w.sets(response, sent[0].Value) {
		w.fresh++
	}
	if w.seen < firstWithCookie {
		return false
	}
	w.done.Store(true)
	return w.fresh >= freshCookies
}

// sets reports whether a response sets the cookie to another value than a client has sent. One that ends it has none.
func (w *CookieWatch) sets(response http.Header, sent string) bool {
	for _, line := range response["Set-Cookie"] {
		if set, err := http.ParseSetCookie(line); err == nil && set.Name == w.name && set.Value != "" && set.Value != sent {
			return true
		}
	}
	return false
}
