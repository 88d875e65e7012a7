package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/delay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// fleet starts each server when it is first needed, and stops all of them in the end. They run until
// then, because rounds measure them in turns. Idle servers use no processor time.
type fleet struct {
	ctx         context.Context
	dir         string
	caddyBinary string
	redis       map[string]*serve.Process // by program
	cluster     []*serve.Process
	targets     map[string]*target // by name
	stops       []func()
	notes       []string
}

func newFleet(ctx context.Context, dir string) *fleet {
	return &fleet{ctx: ctx, dir: dir, redis: map[string]*serve.Process{}, targets: map[string]*target{}}
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
	var on store
	addrs, err := f.open(&on)
	if err != nil {
		return nil, err
	}
	progress("building envoyproxy/ratelimit")
	binary := filepath.Join(f.dir, "ratelimit")
	err = serve.Build(f.ctx, "envoy", serve.EnvoyPackage, binary)
	if err == nil {
		var process *serve.Process
		if process, err = serve.Envoy(f.ctx, f.dir, binary, addrs[0]); err == nil {
			f.stops = append(f.stops, process.Stop)
			return &target{process: process, store: on, path: "/json"}, nil
		}
	}
	return nil, fmt.Errorf("%w: %w", errLeftOut, err)
}

// open starts what the store needs and returns the addresses that clients use.
func (f *fleet) open(on *store) ([]string, error) {
	if on.cluster {
		return f.openCluster(on)
	}
	server, err := f.openRedis(on.program)
	if err != nil {
		return nil, err
	}
	on.processes = []*serve.Process{server}
	if on.delay == (delay.Options{}) {
		return []string{server.Addr}, nil
	}
	proxy, err := delay.Start(f.ctx, server.Addr, on.delay)
	if err != nil {
		return nil, err
	}
	f.stops = append(f.stops, proxy.Close)
	on.proxy = proxy
	return []string{proxy.Addr()}, nil
}

// openRedis returns the running server of a program, by default of the machine's own Redis.
func (f *fleet) openRedis(p program) (*serve.Process, error) {
	path := serve.RedisServer
	if p.path != "" {
		var err error
		if path, err = filepath.Abs(p.path); err != nil { // servers run in a folder of their own
			return nil, err
		}
		if _, err := os.Stat(path); err != nil {
			return nil, p.missing()
		}
	}
	if server := f.redis[path]; server != nil {
		return server, nil
	}
	server, err := serve.Redis(f.ctx, f.dir, path)
	if err != nil {
		return nil, err
	}
	f.redis[path] = server
	f.stops = append(f.stops, server.Stop)
	return server, nil
}

func (f *fleet) openCluster(on *store) ([]string, error) {
	if f.cluster == nil {
		nodes, err := serve.Cluster(f.ctx, f.dir)
		for _, node := range nodes {
			f.stops = append(f.stops, node.Stop)
		}
		if err != nil {
			return nil, err
		}
		f.cluster = nodes
	}
	on.processes = f.cluster
	var addrs []string
	for _, node := range f.cluster {
		addrs = append(addrs, node.Addr)
	}
	return addrs, nil
}
