package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// fleet starts each server when it is first needed, and stops all of them in the end. They run until
// then, because rounds measure them in turns. Idle servers use no processor time.
type fleet struct {
	ctx         context.Context
	dir         string
	caddyBinary string
	redis       *serve.Process
	targets     map[string]*target // by name
	stops       []func()
	notes       []string
}

func newFleet(ctx context.Context, dir string) *fleet {
	return &fleet{ctx: ctx, dir: dir, targets: map[string]*target{}}
}

func (f *fleet) stop() {
	for _, stop := range slices.Backward(f.stops) {
		stop()
	}
}

// errLeftOut is returned for a server that cannot run here. The page says why and lacks its rows.
var errLeftOut = errors.New("left out")

// target returns the running server of that name.
func (f *fleet) target(s server) (*target, error) {
	if t := f.targets[s.name]; t != nil {
		return t, nil
	}
	if err := f.build(); err != nil {
		return nil, err
	}
	t, err := s.start(f, s)
	if err != nil {
		if errors.Is(err, errLeftOut) {
			f.notes = append(f.notes, fmt.Sprintf("The server %s is %v.", s.name, err))
		}
		return nil, err
	}
	t.server = s
	f.targets[s.name] = t
	err = t.check(f.ctx)
	return t, err
}

// build builds the Caddy that has all handlers, with the flags of the Makefile.
func (f *fleet) build() error {
	if f.caddyBinary != "" {
		return nil
	}
	progress("building Caddy")
	f.caddyBinary = filepath.Join(f.dir, "caddy")
	return serve.Build(f.ctx, ".", "./cmd/caddy", f.caddyBinary, "-trimpath", "-tags", "nobadger,nomysql,nopgx")
}

// startEnvoy builds and starts envoyproxy/ratelimit.
func (f *fleet) startEnvoy() (*target, error) {
	redis, err := f.openRedis()
	if err != nil {
		return nil, err
	}
	progress("building envoyproxy/ratelimit")
	binary := filepath.Join(f.dir, "ratelimit")
	err = serve.Build(f.ctx, "envoy", serve.EnvoyPackage, binary)
	if err == nil {
		var process *serve.Process
		if process, err = serve.Envoy(f.ctx, f.dir, binary, redis.Addr); err == nil {
			f.stops = append(f.stops, process.Stop)
			return &target{process: process, redis: redis, path: "/json"}, nil
		}
	}
	return nil, fmt.Errorf("%w: %w", errLeftOut, err)
}

// openRedis returns the one Redis that all servers use.
func (f *fleet) openRedis() (*serve.Process, error) {
	if f.redis == nil {
		server, err := serve.Redis(f.ctx, f.dir)
		if err != nil {
			return nil, err
		}
		f.redis = server
		f.stops = append(f.stops, server.Stop)
	}
	return f.redis, nil
}
