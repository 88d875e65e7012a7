// Package errorroute decides whether an error route of a server can answer what a request is refused with. What can
// be known of the routes is decided once for each server and status, and for a request only whether its host is
// that of a route.
package errorroute

import (
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// The statuses of errors.
const (
	minStatus = 400
	maxStatus = 599
)

// Servers keeps what was decided about the servers of a configuration. The zero value is ready, and it is safe for
// concurrent use.
type Servers struct {
	decided sync.Map // of *statuses, by *caddyhttp.Server
}

// statuses are the paths of errors through a server's error routes, by status. Nil: not decided so far.
type statuses [maxStatus - minStatus + 1]atomic.Pointer[[]path]

// CanHandle reports whether an error route of a request's server can answer an error of a status. Routes do so for
// the hosts that they match, and for the statuses that handle_errors names. Whatever else they match by, they may
// match. So may those around named routes, which are not seen from within.
func (s *Servers) CanHandle(r *http.Request, status int) bool {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	switch {
	case !ok || server == nil || len(server.NamedRoutes) > 0:
		return true
	case server.Errors == nil || len(server.Errors.Routes) == 0:
		return false
	case status < minStatus || status > maxStatus:
		return true
	}
	for _, p := range s.paths(server, status) {
		if p.isOf(r) {
			return p.answers
		}
	}
	return false
}

// paths returns the paths of errors of a status through a server's error routes.
func (s *Servers) paths(server *caddyhttp.Server, status int) []path {
	decided, found := s.decided.Load(server)
	if !found {
		decided, _ = s.decided.LoadOrStore(server, new(statuses))
	}
	all, ok := decided.(*statuses)
	if !ok {
		return nil
	}
	kept := &all[status-minStatus]
	if paths := kept.Load(); paths != nil {
		return *paths
	}
	paths := pathsOf(server.Errors.Routes, status)
	kept.Store(&paths)
	return paths
}
