package caddytest

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// InProcess starts a node whose site limits in the process, for a test beside others.
func InProcess(t *testing.T, site string) *Node {
	t.Helper()
	t.Parallel()
	return Start(t, Config("", site))
}

// OnBothStores runs a test in process and on Redis, with the global option for each, and beside other tests.
func OnBothStores(t *testing.T, test func(t *testing.T, option, source string)) {
	t.Helper()
	t.Parallel()
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		test(t, "", "memory")
	})
	t.Run("on Redis", func(t *testing.T) {
		t.Parallel()
		test(t, SharedRedis(t), "redis")
	})
}

// OnEachStore runs a test as [OnBothStores] does, with a node for each store that serves a site.
func OnEachStore(t *testing.T, site string, test func(t *testing.T, n *Node, source string)) {
	t.Helper()
	OnBothStores(t, func(t *testing.T, option, source string) { test(t, Start(t, Config(option, site)), source) })
}

// Stores returns the global option for each store, by the source of its decisions.
func Stores(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{"memory": "", "redis": SharedRedis(t)}
}

// SharedRedis returns a global option like [PatientRedis] for a database, which no other call gets, of the server that
// the tests of a package share.
func SharedRedis(t testing.TB) string {
	t.Helper()
	return PatientRedis(redistest.Shared(t))
}

// PatientRedis returns a global option with a timeout above any delay of a busy machine, so that no
// decision falls back to a node's memory.
func PatientRedis(server *redistest.Server) string {
	return "redis_ratelimit {\nredis " + server.URL() + "\ntimeout 10s\n}"
}
