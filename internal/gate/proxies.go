package gate

import (
	"net/http"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Proxies is what the reverse_proxy handlers of a server may do with a request that a backend has seen, and whether there are
// other backends.
type Proxies struct {
	// Repeat says that one may send it again after it had a connection, whatever the method.
	Repeat bool

	// Pass says that one may hand it on after an answer, by its routes for responses, as forward_auth does.
	Pass bool

	// Answer says that such a route may answer in place of the backend, as one for X-Accel-Redirect does.
	Answer bool

	// Retry says that one may ask several times for a request.
	Retry bool

	// Foreign says that there are handlers of other authors, which may be backends themselves, such as FrankenPHP.
	Foreign bool
}

// ownServer finds what a limiter has to know of its server, at the first request that needs to know: all handlers of the
// server are provisioned by then, and its routes and logs do not change.
type ownServer struct {
	findProxies func(*caddyhttp.Server) Proxies
	found       atomic.Pointer[Proxies]
	isUnlogged  atomic.Bool // it has no access log
}

// proxies returns what the proxies of a request's server may do.
func (s *ownServer) proxies(r *http.Request) *Proxies {
	if found := s.found.Load(); found != nil {
		return found
	}
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || server == nil || s.findProxies == nil {
		return &Proxies{Repeat: true, Pass: true, Answer: true, Retry: true, Foreign: true}
	}
	found := s.findProxies(server)
	s.found.Store(&found)
	return &found
}
