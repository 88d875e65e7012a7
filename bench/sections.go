package main

import (
	"fmt"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/contenders"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/delay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/report"
)

// manyClients is the number of connections where a request waits for long.
const manyClients = 512

// Servers of several sections.
var (
	bare       = caddyServer("bare", constantHeaders("1000000", "999999"))
	onRedis    = moduleServer("redis", store{}, limitAllowed)
	oneEvalSHA = contenderServer("evalsha", store{}, contenders.EvalSHA)
)

// micros returns a duration in microseconds.
func micros(n float64) time.Duration { return time.Duration(n * float64(time.Microsecond)) }

func allowedSection() *section {
	return &section{
		title: fmt.Sprintf("%d connections, allowed", connections),
		note: "`respond \"ok\"` to 5,000 clients far below their limit; the bare Caddy sends three constant headers of the same size. " +
			"envoyproxy/ratelimit stands alone, without a web server before it, so that all of its processor time is added. It counts in fixed windows.",
		trials: compare(
			wrkTrial("64/bare", "bare Caddy", bare, connections),
			wrkTrial("64/memory", "this module, in process", caddyServer("memory", limitAllowed), connections).
				aim(report.Target{Added: micros(1.8), AtLeast: 0.93}),
			wrkTrial("64/redis", "this module, Redis", onRedis, connections).
				aim(report.Target{Added: micros(5), StoreCPU: micros(4), AtLeast: 0.70}),
			wrkTrial("64/valkey", "this module, Valkey 9", moduleServer("valkey", store{program: valkey9}, limitAllowed), connections),
			wrkTrial("64/autopipeline", "go-redis AutoPipeline", contenderServer("autopipeline", store{}, contenders.AutoPipeline), connections),
			wrkTrial("64/redis_rate", "redis_rate v10", contenderServer("redis_rate", store{}, contenders.RedisRate), connections),
			wrkTrial("64/evalsha", "one EVALSHA a request", oneEvalSHA, connections),
			wrkTrial("64/envoy", "envoyproxy/ratelimit, alone", envoyServer("envoy"), connections).alone(),
		),
	}
}

func headersOffSection() *section {
	return &section{
		title: fmt.Sprintf("%d connections, no headers", connections),
		note: "The same without headers of a limit, over plain `respond`: this module with `headers off`, and mholt/caddy-ratelimit, which sends none. " +
			"It reserves memory for each event of each client, here for 200 in `window 10s`.",
		trials: compare(
			wrkTrial("plain/bare", "bare Caddy", caddyServer("plain").quiet(), connections),
			wrkTrial("plain/memory", "this module, in process", caddyServer("memory-plain", limitWithoutHeaders).quiet(), connections).
				aim(report.Target{Added: micros(3)}),
			wrkTrial("plain/mholt", "mholt/caddy-ratelimit", caddyServer("mholt", limitMholt).quiet(), connections),
		),
	}
}

func hotKeySection() *section {
	return &section{
		title: fmt.Sprintf("%d connections, one hot key", connections),
		note:  "All requests are those of one client, which may send 10,000,000 a minute.",
		trials: compare(
			wrkTrial("hot/bare", "bare Caddy", bare, connections).ofOneKey(),
			wrkTrial("hot/memory", "this module, in process", caddyServer("memory-hot", limitHot()), connections).ofOneKey(),
			wrkTrial("hot/redis", "this module, Redis", moduleServer("redis-hot", store{}, limitHot()), connections).ofOneKey(),
			wrkTrial("hot/lease", "this module, Redis, lease", moduleServer("redis-lease", store{}, limitHot("lease")), connections).ofOneKey().aim(report.Target{Added: micros(2.5), StoreCPU: micros(0.3), AtLeast: 0.93}),
		),
	}
}

func policiesSection() *section {
	return &section{
		title: fmt.Sprintf("%d connections, several policies", connections),
		note:  "Policies of one request with the same key. The headers are those of the policy of which least is left.",
		trials: compare(
			wrkTrial("policies/bare", "bare Caddy", bare, connections),
			wrkTrial("policies/memory-8", "this module, 8 in process", caddyServer("memory-8", limitSeveral(8)), connections),
			wrkTrial("policies/redis-2", "this module, 2 on Redis", moduleServer("redis-2", store{}, limitSeveral(2)), connections),
			wrkTrial("policies/redis-8", "this module, 8 on Redis", moduleServer("redis-8", store{}, limitSeveral(8)), connections),
		),
	}
}

func deniedSection() *section {
	constant := constantHeaders("1", "0")
	return &section{
		title: fmt.Sprintf("%d connections, denied", connections),
		note:  "A flood from 5,000 clients that have used up their limit. The bare Caddy is `respond 429` with three constant headers; `error 429` with the same headers goes through Caddy's error routes, as denials do, and Caddy describes the request for its error log there.",
		trials: compare(
			wrkTrial("denied/bare", "bare Caddy", caddyServer("bare-denied", constant, "respond 429").denying(), connections),
			wrkTrial("denied/error", "bare Caddy, error routes", caddyServer("bare-error", constant, "error 429").denying(), connections),
			wrkTrial("denied/redis", "this module, Redis", moduleServer("denied", store{}, limitDenied).denying(), connections).
				aim(report.Target{Added: micros(2), AtLeast: 0.90}),
		),
	}
}

func linkSection() *section {
	away := func(name, title string, roundTrip time.Duration) *trial {
		s := moduleServer("redis-"+name, store{delay: delay.Options{Delay: roundTrip}}, limitAllowed)
		return wrkTrial("512/"+name, title, s, manyClients).aim(report.Target{AtLeast: 0.60})
	}
	return &section{
		title:     fmt.Sprintf("%d connections, slower link", manyClients),
		note:      "A proxy holds each of Redis's replies back, and takes its own part of the processors for that. There is none before the Redis 0 ms away.",
		sometimes: true,
		trials: compare(
			wrkTrial("512/bare", "bare Caddy", bare, manyClients),
			away("0ms", "this module, Redis 0 ms away", 0),
			away("5ms", "this module, Redis 5 ms away", 5*time.Millisecond),
			away("20ms", "this module, Redis 20 ms away", 20*time.Millisecond),
		),
	}
}

func clusterSection() *section {
	cluster := store{cluster: true}
	s := &section{
		title:     fmt.Sprintf("%d conn., cluster of 3 masters", connections),
		sometimes: true,
		trials: compare(
			wrkTrial("cluster/evalsha", "one EVALSHA a request", contenderServer("evalsha-cluster", cluster, contenders.EvalSHA), connections),
			wrkTrial("cluster/redis", "this module, Redis Cluster", moduleServer("redis-cluster", cluster, limitAllowed), connections).
				aim(report.Target{AtLeast: 1.30}),
		),
	}
	return s.by(report.Throughput)
}
