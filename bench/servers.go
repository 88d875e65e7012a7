package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/contenders"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/delay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// server is the name of a server under load.
type server string

const (
	serverBare           server = "bare"
	serverBareDenied     server = "bare-denied"
	serverBareError      server = "bare-error"
	serverMemory         server = "memory"
	serverRedis          server = "redis"
	serverDenied         server = "denied"
	serverEvalSHA        server = "evalsha"
	serverAutoPipeline   server = "autopipeline"
	serverRedisRate      server = "redis_rate"
	serverEnvoy          server = "envoy"
	serverRedis1ms       server = "redis-1ms"
	serverRedis5ms       server = "redis-5ms"
	serverRedis20ms      server = "redis-20ms"
	serverRedisSlow      server = "redis-slow"
	serverEvalSHASlow    server = "evalsha-slow"
	serverRedisCluster   server = "redis-cluster"
	serverEvalSHACluster server = "evalsha-cluster"
)

// slowReplies delays some replies of Redis.
var slowReplies = delay.Options{SlowFraction: 0.05, SlowDelay: 50 * time.Millisecond}

// start starts a server on the stores that it needs.
func (f *fleet) start(s server) (*target, error) {
	switch s {
	case serverBare:
		return f.caddy(s, store{}, nil, constantHeaders("1000000", "999999"), `respond "ok"`)
	case serverBareDenied:
		t, err := f.caddy(s, store{}, nil, constantHeaders("1", "0"), "respond 429")
		return t.refusing(), err
	case serverBareError:
		t, err := f.caddy(s, store{}, nil, constantHeaders("1", "0"), "error 429")
		return t.refusing(), err
	case serverMemory:
		return f.caddy(s, store{}, nil, limitAllowed, `respond "ok"`)
	case serverDenied:
		t, err := f.module(s, store{}, limitDenied)
		return t.refusing(), err
	case serverRedis:
		return f.module(s, store{}, limitAllowed)
	case serverRedis1ms:
		return f.module(s, store{delay: delay.Options{Delay: time.Millisecond}}, limitAllowed)
	case serverRedis5ms:
		return f.module(s, store{delay: delay.Options{Delay: 5 * time.Millisecond}}, limitAllowed)
	case serverRedis20ms:
		return f.module(s, store{delay: delay.Options{Delay: 20 * time.Millisecond}}, limitAllowed)
	case serverRedisSlow:
		return f.module(s, store{delay: slowReplies}, limitAllowed)
	case serverRedisCluster:
		return f.module(s, store{cluster: true}, limitAllowed)
	case serverEvalSHA:
		return f.contender(s, store{}, contenders.EvalSHA)
	case serverEvalSHASlow:
		return f.contender(s, store{delay: slowReplies}, contenders.EvalSHA)
	case serverEvalSHACluster:
		return f.contender(s, store{cluster: true}, contenders.EvalSHA)
	case serverAutoPipeline:
		return f.contender(s, store{}, contenders.AutoPipeline)
	case serverRedisRate:
		return f.contender(s, store{}, contenders.RedisRate)
	case serverEnvoy:
		return f.startEnvoy()
	}
	return nil, fmt.Errorf("there is no server %q", s)
}

// The policies. Their key is the header in which the load generators name a client.
var (
	limitAllowed = fmt.Sprintf("redis_ratelimit {http.request.header.X-Key} %d %v", contenders.Limit, contenders.Window)
	limitDenied  = "redis_ratelimit {http.request.header.X-Key} 1 24h"
)

// constantHeaders sets the headers of a limiter without one, for their cost.
func constantHeaders(limit, remaining string) string {
	return fmt.Sprintf("header {\n\t\tX-RateLimit-Limit %s\n\t\tX-RateLimit-Remaining %s\n\t\tX-RateLimit-Reset %d\n\t}",
		limit, remaining, time.Now().Add(contenders.Window).Unix())
}

// module starts a Caddy with this repository's handler on a store. Requests that Redis does not decide
// get 503, so that only decisions of Redis count.
func (f *fleet) module(s server, on store, policy string) (*target, error) {
	addrs, err := f.open(&on)
	if err != nil {
		return nil, err
	}
	options := []string{"redis_ratelimit {", "\tredis redis://" + addrs[0]}
	if on.cluster {
		options = []string{"redis_ratelimit {", "\tredis {", "\t\tmode cluster", "\t\taddress " + spaced(addrs), "\t}"}
	}
	options = append(options, "\tfail_mode closed", "}")
	return f.caddy(s, on, options, policy, `respond "ok"`)
}

// contender starts a Caddy with another limiter on a store.
func (f *fleet) contender(s server, on store, way string) (*target, error) {
	addrs, err := f.open(&on)
	if err != nil {
		return nil, err
	}
	return f.caddy(s, on, nil, "contender "+way+" "+spaced(addrs), `respond "ok"`)
}

func (f *fleet) caddy(s server, on store, options []string, lines ...string) (*target, error) {
	process, err := serve.Caddy(f.ctx, f.dir, f.caddyBinary, serve.Site{Name: string(s), Options: options, Lines: lines})
	if err != nil {
		return nil, err
	}
	f.stops = append(f.stops, process.Stop)
	return &target{process: process, store: on, path: "/", status: http.StatusOK}, nil
}
