package main

import (
	"net/http"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// server is a server under load. Trials with servers of one name share the process.
type server struct {
	name      string
	denies    bool // answers with 429
	unlimited bool // has no headers of a limit
	start     func(f *fleet, s server) (*target, error)
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

// again is the server in a second process.
func (s server) again() server {
	s.name += "-again"
	return s
}

// caddyServer is a Caddy with directives and a response, without a Redis.
func caddyServer(name string, directives ...string) server {
	return server{name: name, start: func(f *fleet, s server) (*target, error) {
		return f.caddy(s, nil, nil, directives...)
	}}
}

// redisServer is a Caddy whose options and directives depend on a Redis.
func redisServer(name string, configure func(addr string) (options []string, directive string)) server {
	return server{name: name, start: func(f *fleet, s server) (*target, error) {
		redis, err := f.openRedis()
		if err != nil {
			return nil, err
		}
		options, directive := configure(redis.Addr)
		return f.caddy(s, redis, options, directive)
	}}
}

// moduleServer is a Caddy with this repository's handler on Redis. Requests that Redis does not decide
// get 503, so that only decisions of Redis count.
func moduleServer(name string, policy string) server {
	return redisServer(name, func(addr string) ([]string, string) {
		return []string{"redis_ratelimit {", "\tredis redis://" + addr, "\tfail_mode closed", "}"}, policy
	})
}

// contenderServer is a Caddy with another limiter on Redis.
func contenderServer(way string) server {
	return redisServer(way, func(addr string) ([]string, string) { return nil, "contender " + way + " " + addr })
}

// envoyServer is envoyproxy/ratelimit by itself, as a web server for JSON.
func envoyServer(name string) server {
	return server{name: name, unlimited: true, start: func(f *fleet, _ server) (*target, error) { return f.startEnvoy() }}
}

// caddy starts a Caddy whose requests are answered with ok, unless a directive answers them.
func (f *fleet) caddy(s server, redis *serve.Process, options []string, directives ...string) (*target, error) {
	answers := func(d string) bool { return strings.HasPrefix(d, "respond ") || strings.HasPrefix(d, "error ") }
	if !slices.ContainsFunc(directives, answers) {
		directives = append(slices.Clone(directives), `respond "ok"`)
	}
	binary, err := f.build(".", "./cmd/caddy", "-trimpath", "-tags", "nobadger,nomysql,nopgx") // the flags of the Makefile
	if err != nil {
		return nil, err
	}
	process, err := serve.Caddy(f.ctx, f.dir, binary, serve.Site{Name: s.name, Options: options, Lines: directives})
	if err != nil {
		return nil, err
	}
	return &target{process: process, redis: redis, path: "/"}, nil
}

// status is the status of the server's responses.
func (s server) status() int {
	if s.denies {
		return http.StatusTooManyRequests
	}
	return http.StatusOK
}
