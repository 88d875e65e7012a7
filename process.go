package redisratelimit

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/once"
)

// appName is the name of the app, of the handler, the directive and the global option.
const appName = "redis_ratelimit"

// This file holds the state of the process: what outlives configurations, besides the collectors of
// metrics.

// stores outlive configurations: reloads, good and failed, keep every count, and the old and the new
// configuration share a client while both are there.
var stores = caddy.NewUsagePool()

// held counts the requests that max_delay holds now.
var held atomic.Int64

// maxHeld is how many requests this process holds at a time. Each keeps a connection and some memory;
// more than that are refused.
const maxHeld = 65536

// lastEvents are the last events of all handlers.
var lastEvents = once.NewMemory()

// apps are those whose configurations run: commands, metrics and the admin API ask them.
var apps startedApps

// startedApps are apps that were started and not yet cleaned up. There are two during a reload. Caddy
// cleans up the new one where the load fails after all, so that the one before is the running one
// again, and the old one where it succeeds.
type startedApps struct {
	mu   sync.Mutex
	apps []*App // in the order of their starts
}

// newest is the app of the configuration that runs now; nil where none has one.
func (s *startedApps) newest() *App {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.apps) == 0 {
		return nil
	}
	return s.apps[len(s.apps)-1]
}

// add makes an app the running one, and applies its bounds to the in-process store.
func (s *startedApps) add(a *App) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apps = append(s.apps, a)
	a.boundMemory()
}

// remove takes an app away. Where it was the running one, the one before is that again.
func (s *startedApps) remove(a *App) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.apps, a)
	if at < 0 {
		return // it was never started
	}
	s.apps = slices.Delete(s.apps, at, at+1)
	if at > 0 && at == len(s.apps) {
		s.apps[at-1].boundMemory()
	}
}
