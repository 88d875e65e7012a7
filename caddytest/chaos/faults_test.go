package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// plainly returns a setting with one Redis.
func plainly(address string) setting { return setting{redis: "redis redis://" + address} }

// patiently returns a setting in which only Redis decides, however busy the machine is. The storm still
// reports waits above the default timeout.
func patiently(address string) setting {
	return setting{redis: "redis redis://" + address + "\ntimeout 10s"}
}

// onStorm has a fault happen to the one Redis of a storm.
func onStorm(with func(address string) setting, p properties, fault func(t *testing.T, s *storm, server *redistest.Server), args ...string) func(*testing.T, *row) {
	return func(t *testing.T, r *row) {
		server := redistest.Start(t, args...)
		s := newStorm(t, with(server.Addr))
		s.blow(t, func() { fault(t, s, server) })
		r.check(t, s, p)
	}
}

// killed restarts a Redis without persistence, which loses its counts.
func killed(failMode string) func(*testing.T, *row) {
	with := func(address string) setting {
		s := patiently(address) // a Redis that is empty again has room, which a node goes on from
		s.failMode = failMode
		return s
	}
	return onStorm(with, properties{forgotten: 1, outage: true}, func(t *testing.T, s *storm, server *redistest.Server) {
		server.Kill()
		s.hold()
		server.Run(t)
	})
}

func paused(t *testing.T, s *storm, server *redistest.Server) {
	server.Pause(t)
	s.hold()
	server.Resume(t)
}

func flushed(t *testing.T, s *storm, server *redistest.Server) {
	do(t, server, "flushall")
	s.hold()
}

// outOfMemory makes Redis refuse commands that take memory. Denials take none.
func outOfMemory(t *testing.T, s *storm, server *redistest.Server) {
	do(t, server, "set", "filler", strings.Repeat("x", 2<<20))
	do(t, server, "config", "set", "maxmemory", "1mb")
	s.hold()
	do(t, server, "config", "set", "maxmemory", "0")
}

// readOnly makes Redis the replica of a master that does not exist. It keeps its data.
func readOnly(t *testing.T, s *storm, server *redistest.Server) {
	host, port, _ := strings.Cut(redistest.FreeAddr(t), ":")
	do(t, server, "replicaof", host, port)
	s.hold()
	do(t, server, "replicaof", "no", "one")
}

// do runs a command on a server, on a connection of its own, and returns the reply.
func do(t *testing.T, server *redistest.Server, words ...any) any {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close() //nolint:errcheck // the reply was read
	answer, err := client.Do(context.Background(), words...).Result()
	assert.FatalIf(t, err != nil && !errors.Is(err, redis.Nil), "%v: %v", words, err) // nil where there is no such key
	return answer
}

// toxiproxy starts a proxy before a new Redis. It returns the Redis too, for direct connections.
func toxiproxy(t *testing.T) (*redistest.Toxiproxy, *redistest.Server) {
	t.Helper()
	path := assert.NoError(builtToxiproxy())(t)
	server := redistest.Start(t)
	return redistest.StartToxiproxy(t, path, server.Addr), server
}

// builtToxiproxy returns the path of the binary of make, built where it is missing or old.
var builtToxiproxy = sync.OnceValues(func() (string, error) {
	return caddytest.Build("toxiproxy-server", "tools", "github.com/Shopify/toxiproxy/v2/cmd/server")
})

// onReplies is a toxic of replies with one attribute.
func onReplies(kind, attribute string, value int) redistest.Toxic {
	return redistest.Toxic{Type: kind, Stream: "downstream", Attributes: map[string]int{attribute: value}}
}

// behindProxy has a fault happen to connections, while a proxy applies a toxic to replies. The last function holds
// the storm's counts to more than all storms.
func behindProxy(with func(address string) setting, toxic redistest.Toxic, fault func(t *testing.T, s *storm, server *redistest.Server), more ...func(s *storm, t *testing.T)) func(*testing.T, *row) {
	return func(t *testing.T, r *row) {
		proxy, server := toxiproxy(t)
		s := newStorm(t, with(proxy.Addr))
		s.blow(t, func() {
			proxy.Poison(t, toxic)
			fault(t, s, server)
			proxy.Cure(t)
		})
		r.check(t, s, properties{outage: true})
		for _, check := range more {
			check(s, t)
		}
	}
}

func held(_ *testing.T, s *storm, _ *redistest.Server) { s.hold() }

// mostlyOnRedis checks that a latency below the timeout keeps Redis from few decisions.
func (s *storm) mostlyOnRedis(t *testing.T) {
	t.Helper()
	if now := s.now(); isLong() && now.elsewhere > now.sent/20 { // a new connection takes another round trip
		t.Errorf("Redis did not decide %d of %d requests; want fewer than one in 20", now.elsewhere, now.sent)
	}
}

// tooFar checks that a latency above the timeout has requests decided elsewhere.
func tooFar(t *testing.T, s *storm, _ *redistest.Server) {
	s.hold()
	assert.ErrorIf(t, s.now().elsewhere == 0, "no request was decided elsewhere")
}

// killedAgain ends connections on the side of Redis again and again.
func killedAgain(every time.Duration) func(t *testing.T, s *storm, server *redistest.Server) {
	return func(t *testing.T, s *storm, server *redistest.Server) {
		s.repeat(every, func() { do(t, server, "client", "kill", "type", "normal") })
	}
}

// exactly returns a setting in which the hot key's admissions equal the count of Redis: its quota neither
// ends nor refills.
func exactly(address string) setting {
	with := plainly(address)
	with.limit, with.hot = largeLimit, "window 24h\nalgorithm sliding_window_log"
	return with
}

// repliesDropped drops all replies for a moment, again and again. Commands arrive.
func repliesDropped(t *testing.T, r *row) {
	proxy, _ := toxiproxy(t)
	s := newStorm(t, exactly(proxy.Addr))
	s.blow(t, func() {
		s.repeat(time.Second/10, func() {
			lost := s.now().elsewhere
			proxy.Poison(t, onReplies("timeout", "timeout", 1000))
			assert.Retry(t, "replies are missed", func() (again bool, seen any) {
				return s.now().elsewhere < lost+stormClients, fmt.Sprintf("%d requests were decided elsewhere before, now %d", lost, s.now().elsewhere)
			})
			proxy.Cure(t)
			s.awaitRedis(t)
		})
	})
	r.check(t, s, properties{outage: true})
	s.countsOnce(t)
}

// countsOnce checks that Redis has counted its admissions of the hot key, and each request without a
// reply at most once.
func (s *storm) countsOnce(t *testing.T) {
	t.Helper()
	now, consumed := s.now(), s.consumed(t)
	t.Logf("of the hot key Redis admitted %d and has counted %d; %d more were sent", now.hotRedis, consumed, now.hotLost)
	assert.ErrorIf(t, consumed < now.hotRedis || consumed > now.hotRedis+now.hotLost, "of the hot key Redis admitted %d and has counted %d; %d more were sent", now.hotRedis, consumed, now.hotLost)
}

// reloaded loads another configuration again and again. It checks that no connections and goroutines of
// earlier ones are left.
func reloaded(t *testing.T, r *row) {
	server := redistest.Start(t)
	with := plainly(server.Addr)
	with.reloads = true
	if !isLong() {
		with.redis += "\ntimeout 10s" // a machine that the suite shares with others is slow
	}
	s := newStorm(t, with)
	n, times := s.running[0], lasting(100, 10)
	warmUp := func(from, to int) {
		for round := from; round < to; round++ {
			n.Load(t, s.caddyfile(round)).Want(t, http.StatusOK, caddytest.Any)
		}
	}
	warmUp(1, 3)
	goroutines := n.Goroutines(t)
	s.begin(t)
	s.hold()
	open := len(server.Connections(t))
	warmUp(3, 3+times)
	s.hold()
	now := len(server.Connections(t))
	r.check(t, s, properties{outage: true})
	assert.ErrorIf(t, r.elsewhere > r.sent/lasting(100, 10), "Redis did not decide %d of %d requests", r.elsewhere, r.sent)
	t.Logf("%d connections to Redis, before %d", now, open)
	assert.ErrorIf(t, now > open+stormClients, "%d connections to Redis, before %d", now, open)
	assert.Retry(t, "there are no more goroutines than before", func() (again bool, seen any) {
		// Each connection of the pool may have kept one or two.
		left := n.Goroutines(t)
		return left > goroutines+4, fmt.Sprintf("%d, before %d", left, goroutines)
	})
}

// clocksApart has two nodes on a Redis whose clock differs from theirs by 10 s. Go reads the time from the kernel, so
// that faketime cannot move a node's clock. Only the difference matters: a decision or a cached denial that used a
// node's clock would be wrong here. Nodes with different clocks would each differ from the server in the same way.
func clocksApart(t *testing.T, r *row) {
	server := redistest.StartAt(t, 10*time.Second)
	with := patiently(server.Addr)
	with.nodes = 2
	s := newStorm(t, with)
	s.begin(t)
	s.hold()
	s.hold()
	s.hold()
	r.check(t, s, properties{})
	assert.ErrorIf(t, r.hotRedis != smallLimit, "both nodes together admitted %d of the hot key, want %d", r.hotRedis, smallLimit)
}
