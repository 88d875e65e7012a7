package main

import (
	"fmt"
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

// caddyServer is a Caddy with directives and a response, without a Redis.
func caddyServer(name string, directives ...string) server {
	return server{name: name, start: func(f *fleet, s server) (*target, error) {
		return f.caddy(s, store{}, nil, directives...)
	}}
}

// moduleServer is a Caddy with this repository's handler on a store. Requests that Redis does not decide
// get 503, so that only decisions of Redis count.
func moduleServer(name string, on store, policy string) server {
	return server{name: name, start: func(f *fleet, s server) (*target, error) {
		on := on // one start's own
		addrs, err := f.open(&on)
		if err != nil {
			return nil, err
		}
		options := []string{"redis_ratelimit {", "\tredis redis://" + addrs[0]}
		if on.cluster {
			options = []string{"redis_ratelimit {", "\tredis {", "\t\tmode cluster", "\t\taddress " + strings.Join(addrs, " "), "\t}"}
		}
		options = append(options, "\tfail_mode closed", "}")
		return f.caddy(s, on, options, policy)
	}}
}

// contenderServer is a Caddy with another limiter on a store.
func contenderServer(name string, on store, way string) server {
	return server{name: name, start: func(f *fleet, s server) (*target, error) {
		on := on // one start's own
		addrs, err := f.open(&on)
		if err != nil {
			return nil, err
		}
		return f.caddy(s, on, nil, "contender "+way+" "+strings.Join(addrs, " "))
	}}
}

// envoyServer is envoyproxy/ratelimit by itself, as a web server for JSON.
func envoyServer(name string) server {
	return server{name: name, unlimited: true, start: func(f *fleet, _ server) (*target, error) { return f.startEnvoy() }}
}

// caddy starts a Caddy whose requests are answered with ok, unless a directive answers them.
func (f *fleet) caddy(s server, on store, options []string, directives ...string) (*target, error) {
	answers := func(d string) bool { return strings.HasPrefix(d, "respond ") || strings.HasPrefix(d, "error ") }
	if !slices.ContainsFunc(directives, answers) {
		directives = append(slices.Clone(directives), `respond "ok"`)
	}
	process, err := serve.Caddy(f.ctx, f.dir, f.caddyBinary, serve.Site{Name: s.name, Options: options, Lines: directives})
	if err != nil {
		return nil, err
	}
	f.stops = append(f.stops, process.Stop)
	return &target{process: process, store: on, path: "/"}, nil
}

// status is the status of the server's responses.
func (s server) status() int {
	if s.denies {
		return http.StatusTooManyRequests
	}
	return http.StatusOK
}

// valkey9 is the program of Valkey 9.
var valkey9 = program{name: "Valkey 9", path: "../.build/compat/sid/valkey-server.sh", brings: "make compat SERVERS=sid/valkey-server"}

// missing says how to bring a program.
func (p program) missing() error {
	return fmt.Errorf("%w: there is no %s; `%s` brings it", errLeftOut, p.name, p.brings)
}
