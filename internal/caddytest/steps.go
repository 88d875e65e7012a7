package caddytest

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// OnRedis starts a node on a Redis of its own, for a test beside others. The options are lines of the global option.
func OnRedis(t *testing.T, options, site string) (*Node, *redistest.Server) {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t)
	return Start(t, Config(RedisAt(server.Addr, options), site)), server
}

// WithoutRedis starts a node whose Redis is down from the beginning, for a test beside others.
func WithoutRedis(t *testing.T, options, site string) *Node {
	t.Helper()
	t.Parallel()
	return Start(t, Config(RedisAt(redistest.FreeAddr(t), options), site))
}

// RedisAt returns a global option with an address of Redis and more options, one a line.
func RedisAt(address, options string) string {
	return "redis_ratelimit {\nredis redis://" + address + "\n" + options + "\n}"
}

// OnCluster starts a Cluster and returns a global option like [PatientRedis] for it.
func OnCluster(t testing.TB) string {
	t.Helper()
	return "redis_ratelimit {\nredis {\nmode cluster\naddress " + redistest.StartCluster(t)[0].Addr + "\n}\ntimeout 10s\n}"
}

// WantTimes requests a path so many times, and checks each response as [Response.Want] does.
func (n *Node) WantTimes(t testing.TB, times int, path string, status int, body string, headers ...string) {
	t.Helper()
	for range times {
		n.Get(t, path).Want(t, status, body, headers...)
	}
}

// Spend requests a path until its quota is used up, and once more. Each response shows the quota. An empty source is any.
func (n *Node) Spend(t testing.TB, path, source string, limit int64, headers ...string) Response {
	t.Helper()
	for left := limit - 1; left >= 0; left-- {
		a := n.Get(t, path, headers...)
		if source != "" {
			a.Want(t, http.StatusOK, "allowed "+source)
		}
		CheckQuota(t, a, limit, left)
	}
	a := CheckRefusal(t, n.Get(t, path, headers...), http.StatusTooManyRequests)
	CheckQuota(t, a, limit, 0)
	return a
}

// GetUntil sends requests until a body has a text, and returns the response that has it: on a busy machine a denial may have
// left the deny cache when the next request comes.
func (n *Node) GetUntil(t testing.TB, path, text string, headers ...string) (a Response) {
	t.Helper()
	assert.Retry(t, path+" is answered with "+text, func() (again bool, seen any) {
		a = n.Get(t, path, headers...)
		return !strings.Contains(a.Body, text), a
	})
	return a
}

// AwaitBreaker requests a path until the breaker is open.
func (n *Node) AwaitBreaker(t testing.TB, path string) {
	t.Helper()
	assert.Retry(t, "the breaker is open", func() (again bool, seen any) {
		n.Get(t, path)
		return n.Metric(t, "breaker_open") != 1, "it is closed"
	})
}

// Meanwhile has a client send one request after the other until it is stopped, which returns how many these were. Each
// response must be right.
func (n *Node) Meanwhile(t testing.TB, path string, right func(a Response) bool, headers ...string) (stop func() int64) {
	t.Helper()
	var group sync.WaitGroup
	var over atomic.Bool
	var sent int64
	group.Go(func() {
		for ; !over.Load(); sent++ {
			if a, err := n.Try(http.MethodGet, n.URL+path, "", headers...); err != nil || !right(a) {
				t.Errorf("got %v, %v", a, err)
				return
			}
		}
	})
	stop = func() int64 {
		over.Store(true)
		group.Wait()
		return sent
	}
	t.Cleanup(func() { stop() })
	return stop
}
