package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// redisServer is a Redis with a folder of its own.
type redisServer struct {
	dir    string
	server *serve.Process
	client *goredis.Client // for INFO
}

func startRedis(ctx context.Context) (*redisServer, error) {
	dir, err := os.MkdirTemp("", "sizing")
	if err != nil {
		return nil, err
	}
	server, err := serve.Redis(ctx, dir)
	if err != nil {
		return nil, err
	}
	return &redisServer{dir, server, goredis.NewClient(&goredis.Options{Addr: server.Addr})}, nil
}

func (r *redisServer) stop() {
	_ = r.client.Close() // no command is in flight
	r.server.Stop()
	_ = os.RemoveAll(r.dir) // a temporary folder may stay
}

func (r *redisServer) version(ctx context.Context) string {
	return field(r.client.Info(ctx, "server").Val(), "redis_version")
}

// spent is the cost of a load: bytes of memory, seconds of processor time of Redis, and script runs.
type spent struct {
	memory, cpu, batches float64
}

// measure puts an empty Redis under load and returns the cost.
func (r *redisServer) measure(ctx context.Context, l load) (spent, error) {
	if err := r.client.FlushAll(ctx).Err(); err != nil {
		return spent{}, err
	}
	warm := l
	warm.clients = l.together
	if err := r.decide(ctx, warm, nil); err != nil {
		return spent{}, err // the script is loaded now
	}
	if err := r.client.FlushAll(ctx).Err(); err != nil {
		return spent{}, err
	}
	before, err := r.usage(ctx)
	if err != nil {
		return spent{}, err
	}
	var batches atomic.Int64
	if err := r.decide(ctx, l, &batches); err != nil {
		return spent{}, err
	}
	after, err := r.usage(ctx)
	return spent{after.memory - before.memory, after.cpu - before.cpu, float64(batches.Load())}, err
}

// decide sends a load through stores of the module, one for each node, and counts their batches.
func (r *redisServer) decide(ctx context.Context, l load, batches *atomic.Int64) error {
	p, err := l.policy()
	if err != nil {
		return err
	}
	var next atomic.Int64
	var failure atomic.Pointer[error]
	var workers sync.WaitGroup
	var stores []*redis.Store
	defer func() {
		for _, store := range stores {
			_ = store.Close() // no command is in flight
		}
	}()
	for range l.nodes {
		store, err := r.store(batches)
		if err != nil {
			return err
		}
		stores = append(stores, store)
	}
	for _, store := range stores {
		for range l.together {
			workers.Go(func() {
				for i := next.Add(1) - 1; i < int64(l.clients*l.requests) && failure.Load() == nil; i = next.Add(1) - 1 {
					checks := []limiter.Check{l.check(p, int(i))}
					if _, err := store.Decide(ctx, checks); err != nil {
						failure.Store(&err)
					} else if !limiter.Allowed(checks) && l.settings.Ban == nil {
						err := fmt.Errorf("%s was denied", checks[0].Key)
						failure.Store(&err)
					}
				}
			})
		}
	}
	workers.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	return nil
}

// store returns a store of the module on this Redis that counts its batches, unless that is nil.
func (r *redisServer) store(batches *atomic.Int64) (*redis.Store, error) {
	const patience = 10 * time.Second
	client, err := dial.New(dial.Connection{Mode: dial.Standalone, Addresses: []string{r.server.Addr}, Timeout: patience})
	if err != nil {
		return nil, err
	}
	setup := redis.Setup{KeyFormat: limiter.KeyFormat{Prefix: "rl"}}
	if batches != nil {
		setup.OnBatch = func(int, time.Duration) { batches.Add(1) }
	}
	return redis.New(client, setup), nil
}

// usage returns what Redis has used so far.
func (r *redisServer) usage(ctx context.Context) (spent, error) {
	info, err := r.client.Info(ctx, "memory", "cpu").Result()
	number := func(name string) float64 {
		value, parseErr := strconv.ParseFloat(field(info, name), 64)
		if err == nil && parseErr != nil {
			err = fmt.Errorf("INFO has no %s", name)
		}
		return value
	}
	return spent{memory: number("used_memory"), cpu: number("used_cpu_user") + number("used_cpu_sys")}, err
}

// field returns a value of INFO.
func field(info, name string) string {
	_, rest, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}
