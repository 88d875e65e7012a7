// Package stores opens the stores that the suite of storetest runs on, in the process and in Redis, for the tests of the
// packages that use one, and waits for what a store in Redis shows.
package stores

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// Patience is the timeout of a store whose Redis answers, however slowly. An answer that comes too late is an outage,
// in which requests are decided by other counts.
const Patience = time.Minute

// Open returns a store on a real Redis and its own clock. It waits as long for an answer as a busy machine needs.
func Open(t testing.TB, server *redistest.Server) *redis.Store {
	t.Helper()
	return OpenWithin(t, server, Patience, limiter.KeyFormat{Prefix: "rl"})
}

// OpenWithin returns a store on a real Redis, with a timeout and with names of keys.
func OpenWithin(t testing.TB, server *redistest.Server, timeout time.Duration, format limiter.KeyFormat) *redis.Store {
	t.Helper()
	return OpenStore(t, dial.Connection{Addresses: []string{server.Addr}, DB: server.DB, Timeout: timeout}, redis.Setup{KeyFormat: format})
}

// OpenStore returns a store that is closed when the test ends.
func OpenStore(t testing.TB, o dial.Connection, setup redis.Setup) *redis.Store {
	t.Helper()
	client := assert.NoError(dial.New(o))(t)
	r := redis.New(client, setup)
	t.Cleanup(func() { _ = r.Close() })
	if o.Timeout == Patience {
		Follow(r)
	}
	return r
}

// Follow has requests wait for the refunds and debts of their quotas that left before them, however slow this machine
// is. It holds for some hundred batches.
func Follow(r *redis.Store) {
	b := &r.Topology.AnyNode.Batcher
	b.Mu.Lock()
	defer b.Mu.Unlock()
	b.Senders.RoundTrip, b.Senders.Usual = time.Microsecond, time.Hour // no batch stalls
}

// OpenCluster returns a store on a real Cluster of three masters.
func OpenCluster(t testing.TB) (*redis.Store, []*redistest.Server) {
	t.Helper()
	masters := redistest.StartCluster(t)
	return OpenClusterWithin(t, masters, Patience), masters
}

// OpenClusterWithin returns a store on a Cluster, with a timeout.
func OpenClusterWithin(t testing.TB, masters []*redistest.Server, timeout time.Duration) *redis.Store {
	t.Helper()
	return OpenStore(t, dial.Connection{Mode: dial.Cluster, Addresses: []string{masters[0].Addr}, Timeout: timeout}, redis.Setup{KeyFormat: limiter.KeyFormat{Prefix: "rl"}})
}

// OpenLimited returns a store whose user's permissions the test changes, and its reports: every
// outage, recovery and loss.
func OpenLimited(t *testing.T) (r *redis.Store, reported *Reports, setPermissions func(rights ...string)) {
	t.Helper()
	server := redistest.Start(t)
	admin := server.Client(t)
	setPermissions = func(rights ...string) {
		t.Helper()
		command := []any{"acl", "setuser", "limited", "on", ">secret", "~*"}
		for _, right := range rights {
			command = append(command, right)
		}
		assert.Must(t, admin.Do(t.Context(), command...).Err())
	}
	setPermissions("+@all")
	reported = &Reports{}
	r = OpenStore(t, dial.Connection{Addresses: []string{server.Addr}, Username: "limited", Password: "secret", Timeout: Patience},
		redis.Setup{KeyFormat: limiter.KeyFormat{Prefix: "rl"}, OnLost: func(err error) { reported.Add("lost:" + limiter.Kind(err)) }})
	reported.Listen(r)
	return r, reported, setPermissions
}
