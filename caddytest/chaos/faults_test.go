package chaos

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// plainly returns a setting with one Redis.
func plainly(address string) setting { return setting{redis: "redis redis://" + address} }

// patiently returns a setting in which only Redis decides, however busy the machine is. The storm still
// reports waits above the default timeout.
func patiently(address string) setting {
	return setting{redis: "redis redis://" + address + "\ntimeout 10s"}
}

// killed restarts a Redis without persistence, which loses its counts.
func killed(failMode string) func(*testing.T, *row) {
	return func(t *testing.T, r *row) {
		server := redistest.Start(t)
		with := plainly(server.Addr)
		with.failMode = failMode
		s := newStorm(t, with)
		s.blow(t, func() {
			server.Kill()
			s.hold()
			server.Run(t)
		})
		r.check(t, s, properties{forgotten: 1, outage: true})
	}
}

func paused(t *testing.T, r *row) {
	server := redistest.Start(t)
	s := newStorm(t, plainly(server.Addr))
	s.blow(t, func() {
		server.Pause(t)
		s.hold()
		server.Resume(t)
	})
	r.check(t, s, properties{outage: true})
}

func flushed(t *testing.T, r *row) {
	server := redistest.Start(t)
	s := newStorm(t, patiently(server.Addr))
	s.blow(t, func() {
		do(t, server, "flushall")
		s.hold()
	})
	r.check(t, s, properties{forgotten: 1})
}

// outOfMemory makes Redis refuse commands that take memory. Denials take none.
func outOfMemory(t *testing.T, r *row) {
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	s := newStorm(t, plainly(server.Addr))
	s.blow(t, func() {
		do(t, server, "set", "filler", strings.Repeat("x", 2<<20))
		do(t, server, "config", "set", "maxmemory", "1mb")
		s.hold()
		do(t, server, "config", "set", "maxmemory", "0")
	})
	r.check(t, s, properties{outage: true})
}

// readOnly makes Redis the replica of a master that does not exist. It keeps its data.
func readOnly(t *testing.T, r *row) {
	server := redistest.Start(t)
	s := newStorm(t, plainly(server.Addr))
	host, port, _ := strings.Cut(redistest.FreeAddr(t), ":")
	s.blow(t, func() {
		do(t, server, "replicaof", host, port)
		s.hold()
		do(t, server, "replicaof", "no", "one")
	})
	r.check(t, s, properties{outage: true})
}

func connectionsKilled(t *testing.T, r *row) {
	server := redistest.Start(t)
	s := newStorm(t, plainly(server.Addr))
	s.blow(t, func() {
		s.repeat(20*time.Millisecond, func() { do(t, server, "client", "kill", "type", "normal") })
	})
	r.check(t, s, properties{outage: true})
}

// do runs a command on a server, on a connection of its own, and returns the reply.
func do(t *testing.T, server *redistest.Server, words ...any) any {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close() //nolint:errcheck // the reply was read
	answer, err := client.Do(context.Background(), words...).Result()
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return answer
}
