// Package adminserver answers the questions of the admin API, which [adminapi] has with their answers, about the configuration that
// runs.
package adminserver

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// Server answers about one configuration.
type Server struct {
	Process  *Process
	Stores   *storepool.Stores // a question uses those of Stores.Use
	Policies options.Registry
	Rules    []*rule.Set // of all handlers
	Crawlers *Crawlers   // nil: the configuration has none
	FailMode limiter.FailMode
	Timeout  time.Duration // that a request waits for Redis
	MaxKeys  int64         // of the store in the process

	// Routes returns the routes of the HTTP servers, by their names, and Describe what a configuration says of each policy, by its name.
	Routes   func() map[string]*routetrace.Tree
	Describe func() map[string]*display.PolicyDescription
}

// Crawlers are those of a configuration, as far as questions are about them.
type Crawlers struct {
	Set      *crawlers.Set
	Resolver string            // that is asked; empty: that of the system
	Lookups  *crawlers.Lookups // nil: no crawler has names
}

// registeredNamed is the policy of a name.
func (s *Server) registeredNamed(name string) (options.Registered, error) {
	registered, found := s.Policies[name]
	if !found {
		return registered, adminapi.Absent("policy %q: the running configuration has none of this name; %s", name, s.Policies.Names())
	}
	return registered, nil
}
