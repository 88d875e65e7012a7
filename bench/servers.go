package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/contenders"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// server is a server under load. Trials with servers of one name share the process.
type server struct {
	name      string
	denies    bool   // answers with 429
	unlimited bool   // has no headers of a limit
	envoy     bool   // is envoyproxy/ratelimit by itself, as a web server for JSON; others are Caddys
	policies  int    // in each of which Redis counts every request; 0: not known
	options   string // lines of the global options
	site      string // directives, with {$REDIS} for the address of Redis
}

// denying is the server, which is expected to answer with 429.
func (s server) denying() server {
	s.denies = true
	return s
}

// quiet is the server, which is expected to send no headers of a limit.
func (s server) quiet() server {
	s.unlimited = true
	return s
}

// caddyServer is a Caddy with directives. It answers with ok, unless a directive answers.
func caddyServer(name string, directives ...string) server {
	site := strings.Join(directives, "\n")
	if !strings.Contains("\n"+site, "\nrespond ") && !strings.Contains("\n"+site, "\nerror ") {
		site += "\nrespond \"ok\""
	}
	return server{name: name, site: site}
}

// moduleServer is a Caddy with this repository's handler on Redis. Requests that Redis does not decide
// get 503, so that only decisions of Redis count.
func moduleServer(name string, policy string) server {
	s := caddyServer(name, policy)
	s.options = block("redis_ratelimit", "redis redis://{$REDIS}", "fail_mode closed")
	return s
}

// contenderServer is a Caddy with another limiter on Redis.
func contenderServer(way string) server { return caddyServer(way, "contender "+way+" {$REDIS}") }

// severalPolicies is a Caddy with a directive of this repository's handler that has the first policies of the contenders.
func severalPolicies(policies int) server {
	lines := make([]string, policies)
	for i, window := range contenders.Windows[:policies] {
		lines[i] = block(fmt.Sprint("policy p", i), "key "+clientKey, fmt.Sprint("limit ", contenders.Limit), fmt.Sprint("window ", window))
	}
	s := moduleServer(fmt.Sprint("redis-", policies), block("redis_ratelimit", lines...))
	s.policies = policies
	return s
}

// severalContender is a Caddy with another limiter, which has so many policies.
func severalContender(way string, policies int) server {
	s := caddyServer(fmt.Sprint(way, "-", policies), fmt.Sprintf("contender %s {$REDIS} %d", way, policies))
	s.policies = policies
	return s
}

// envoyServer is envoyproxy/ratelimit, of which each request asks for so many descriptors.
func envoyServer(policies int) server {
	return server{name: fmt.Sprint("envoy-", policies), unlimited: true, envoy: true, policies: policies}
}

// start starts the server, and the Redis that it uses.
func (f *fleet) start(s server) (t *target, err error) {
	t, addr := &target{server: s, path: "/"}, ""
	if s.envoy || strings.Contains(s.options+s.site, "{$REDIS}") {
		if t.redis, err = f.openRedis(); err != nil {
			return nil, err
		}
		addr = t.redis.Addr
	}
	if s.envoy {
		t.path = "/json"
		t.process, err = f.startEnvoy(addr)
		return t, err
	}
	binary, err := f.build(".", "./cmd/caddy", "-trimpath", "-tags", "nobadger,nomysql,nopgx") // the flags of the Makefile
	if err != nil {
		return nil, err
	}
	t.process, err = serve.Caddy(f.ctx, f.dir, binary, s.name, s.options, s.site, addr)
	return t, err
}

// status is the status of the server's responses.
func (s server) status() int {
	if s.denies {
		return http.StatusTooManyRequests
	}
	return http.StatusOK
}
