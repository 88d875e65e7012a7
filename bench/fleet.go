package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// fleet starts each server when it is first needed. They run together, because rounds measure them in turns:
// idle servers use no processor time.
type fleet struct {
	ctx      context.Context
	dir      string
	binaries map[string]string // that were built, by package
	redis    *serve.Process
	targets  map[string]*target // by name
	notes    []string
}

func newFleet(ctx context.Context, dir string) *fleet {
	return &fleet{ctx: ctx, dir: dir, binaries: map[string]string{}, targets: map[string]*target{}}
}

// stop stops all servers.
func (f *fleet) stop() {
	for name, t := range f.targets {
		t.stop()
		delete(f.targets, name)
	}
	if f.redis != nil {
		f.redis.Stop()
		f.redis = nil
	}
}

// errLeftOut is returned for a server that cannot run here. The page says why and lacks its rows.
var errLeftOut = errors.New("left out")

// target returns the running server of that name.
func (f *fleet) target(s server) (*target, error) {
	if t := f.targets[s.name]; t != nil {
		return t, nil
	}
	t, err := f.start(s)
	if err != nil {
		if errors.Is(err, errLeftOut) {
			f.notes = append(f.notes, fmt.Sprintf("The server %s is %v.", s.name, err))
		}
		return nil, err
	}
	f.targets[s.name] = t
	err = t.check(f.ctx)
	return t, err
}

// build returns the binary of a package in the module of a directory.
func (f *fleet) build(module, pkg string, flags ...string) (string, error) {
	if f.binaries[pkg] != "" {
		return f.binaries[pkg], nil
	}
	progress("building %s", pkg)
	binary := filepath.Join(f.dir, path.Base(pkg))
	if err := serve.Build(f.ctx, module, pkg, binary, flags...); err != nil {
		return "", err
	}
	f.binaries[pkg] = binary
	return binary, nil
}

// startEnvoy starts envoyproxy/ratelimit, which may not build or run here.
func (f *fleet) startEnvoy(redisAddr string) (process *serve.Process, err error) {
	binary, err := f.build("envoy", serve.EnvoyPackage)
	if err == nil {
		process, err = serve.Envoy(f.ctx, f.dir, binary, redisAddr)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLeftOut, err)
	}
	return process, nil
}

// openRedis returns the one Redis that all servers use.
func (f *fleet) openRedis() (*serve.Process, error) {
	if f.redis == nil {
		server, err := serve.Redis(f.ctx, f.dir)
		if err != nil {
			return nil, err
		}
		f.redis = server
	}
	return f.redis, nil
}
