package main

import "github.com/redis-ratelimit/caddy-redis-ratelimit/bench/contenders"

// bare is the Caddy of several sections that limits nothing.
var bare = caddyServer("bare", constantHeaders("1000000", "999999"))

func allowedSection() *section {
	return &section{
		title: "Allowed",
		note: "`respond \"ok\"` to 5,000 clients far below their limit; the bare Caddy sends three constant headers. " +
			"envoyproxy/ratelimit stands alone, without a web server.",
		trials: []*trial{
			newTrial("allowed/bare", "bare Caddy", bare),
			newTrial("allowed/memory", "this module, in process", caddyServer("memory", limitAllowed)),
			newTrial("allowed/redis", "this module, Redis", moduleServer("redis", limitAllowed)),
			newTrial("allowed/redis_rate", "redis_rate v10", contenderServer(contenders.RedisRate)),
			newTrial("allowed/evalsha", "one EVALSHA a request", contenderServer(contenders.EvalSHA)),
			newTrial("allowed/envoy", "envoyproxy/ratelimit, alone", envoyServer("envoy")).alone(),
		},
	}
}

func headersOffSection() *section {
	return &section{
		title: "No headers",
		note:  "`headers off`, over plain `respond`. mholt/caddy-ratelimit reserves memory for each event of each client, here for 200 in `window 10s`.",
		trials: []*trial{
			newTrial("plain/bare", "bare Caddy", caddyServer("plain").quiet()),
			newTrial("plain/memory", "this module, in process", caddyServer("memory-plain", limitWithoutHeaders).quiet()),
			newTrial("plain/mholt", "mholt/caddy-ratelimit", caddyServer("mholt", limitMholt).quiet()),
		},
	}
}

func hotKeySection() *section {
	return &section{
		title: "One hot key",
		note:  "All requests are those of one client, which may send 10,000,000 a minute.",
		trials: []*trial{
			newTrial("hot/bare", "bare Caddy", bare).ofOneKey(),
			newTrial("hot/lease", "this module, Redis, lease", moduleServer("redis-lease", limitHot)).ofOneKey(),
		},
	}
}

func deniedSection() *section {
	constant := constantHeaders("1", "0")
	return &section{
		title: "Denied",
		note:  "A flood from 5,000 clients that have used up their limit. `error 429` goes through Caddy's error routes, as denials do.",
		trials: []*trial{
			newTrial("denied/bare", "bare Caddy", caddyServer("bare-denied", constant, "respond 429").denying()),
			newTrial("denied/error", "bare Caddy, error routes", caddyServer("bare-error", constant, "error 429").denying()),
			newTrial("denied/redis", "this module, Redis", moduleServer("denied", limitDenied).denying()),
		},
	}
}
