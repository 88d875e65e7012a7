package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/contenders"
)

// clientKey is the header in which the load generator names a client.
const clientKey = "{http.request.header.X-Key}"

// The limits, as directives.
var (
	limitAllowed = fmt.Sprintf("redis_ratelimit %s %d %v", clientKey, contenders.Limit, contenders.Window)
	limitPlain   = block("redis_ratelimit "+clientKey+" 100 1m", "headers off")
	limitMholt   = block("rate_limit", "zone clients {", "key "+clientKey, "events 100", "window 1m", "}")
	limitDenied  = "redis_ratelimit " + clientKey + " 1 24h"
	limitHot     = block("redis_ratelimit "+clientKey+" 10000000 1m", "lease") // that no run uses up by one key
)

// block returns a directive with lines in braces.
func block(directive string, lines ...string) string {
	return directive + " {\n" + strings.Join(lines, "\n") + "\n}"
}

// constantHeaders sets the headers of a limiter without one, for their cost.
func constantHeaders(limit, remaining string) string {
	return block("header", "X-RateLimit-Limit "+limit, "X-RateLimit-Remaining "+remaining,
		fmt.Sprint("X-RateLimit-Reset ", time.Now().Add(contenders.Window).Unix()))
}

// Servers of several sections.
var (
	bare    = caddyServer("bare", constantHeaders("1000000", "999999"))
	again   = server{name: "bare-again", site: bare.site}
	memory  = caddyServer("memory", limitAllowed)
	redis   = moduleServer("redis", limitAllowed)
	evalSHA = contenderServer(contenders.EvalSHA)

	pipelined = contenderServer(contenders.Pipelined)
)

func headersSection() *section {
	return &section{
		title: "With headers",
		note: "64 connections, `respond \"ok\"` to 5,000 clients far below their limit; the bare Caddy sends three constant headers. " +
			"envoyproxy/ratelimit stands alone, without a web server.",
		trials: []*trial{
			newTrial("headers/bare", "bare Caddy", bare),
			newTrial("headers/same", "bare Caddy, a second process", again).same(),
			newTrial("headers/memory", "this module, in process", memory),
			newTrial("headers/redis", "this module, Redis", redis),
			newTrial("headers/lease", "this module, Redis, one client with lease", moduleServer("lease", limitHot)).of(1),
			newTrial("headers/redis_rate", "redis_rate v10", contenderServer(contenders.RedisRate)),
			newTrial("headers/evalsha", "one EVALSHA a request", evalSHA),
			newTrial("headers/pipelined", "the same, by go-redis's AutoPipeliner", pipelined),
			newTrial("headers/concurrent", "the same, four batches of 128 at once", contenderServer(contenders.Concurrent)),
			newTrial("headers/envoy", "envoyproxy/ratelimit, alone", envoyServer(1)).alone(),
		},
	}
}

// floorSection is what waiting costs that decides nothing, beside what deciding costs that does not wait.
func floorSection() *section {
	return &section{
		asked: true,
		title: "The floor",
		note:  "64 connections, with headers. Requests wait for a batch that decides nothing.",
		trials: []*trial{
			newTrial("floor/bare", "bare Caddy", bare),
			newTrial("floor/memory", "this module, in process", memory),
			newTrial("floor/wait", "a batch that is answered at once", contenderServer(contenders.Wait)),
			newTrial("floor/ping", "a batch that is a PING", contenderServer(contenders.Ping)),
			newTrial("floor/redis", "this module, Redis", redis),
		},
	}
}

// loneFloorSection is what a question to Redis and its answer cost alone, beside what go-redis and this module take for a
// lone request.
func loneFloorSection() *section {
	s := &section{
		asked: true,
		title: "The floor of one connection",
		note:  "Lone requests, with headers. A connection without a pool, deadlines and a look at whether it lives asks alone.",
		trials: []*trial{
			newTrial("floor1/bare", "bare Caddy", bare),
			newTrial("floor1/lone", "one EVALSHA on such a connection", contenderServer(contenders.Lone)),
			newTrial("floor1/evalsha", "one EVALSHA a request", evalSHA),
			newTrial("floor1/redis", "this module, Redis", redis),
		},
	}
	for _, t := range s.trials {
		t.on(1, 3000)
	}
	return s
}

// severalSection compares requests that meet several policies.
func severalSection() *section {
	s := &section{
		title: "Several policies",
		note: "64 connections, with headers. One policy has an hour, two an hour and a day, four also a minute and two days. " +
			"This module charges a request to all policies or to none. The others keep what they have counted where a further policy " +
			"denies; one EVALSHA after the other ends there. envoyproxy/ratelimit, in one request, has fixed windows, and a week in place of two days.",
	}
	s.trials = []*trial{newTrial("several/bare", "bare Caddy", bare)}
	single := newTrial("several/1", "this module, one policy", severalPolicies(1))
	s.trials = append(s.trials, single)
	for _, several := range []struct {
		policies int
		word     string
	}{{2, "two"}, {4, "four"}} {
		n, name := several.policies, func(way string) string { return fmt.Sprint("several/", several.policies, way) }
		s.trials = append(s.trials,
			newTrial(name(""), fmt.Sprintf("this module, %s policies", several.word), severalPolicies(n)).beside(single),
			newTrial(name("/evalsha"), several.word+" EVALSHA, one after the other", severalContender(contenders.EvalSHA, n)).long(),
			newTrial(name("/pipelined"), several.word+" EVALSHA at once, by AutoPipeliner", severalContender(contenders.Pipelined, n)).long(),
			newTrial(name("/envoy"), fmt.Sprintf("envoyproxy/ratelimit alone, %s descriptors", several.word), envoyServer(n)).alone(),
		)
	}
	return s
}

func plainSection() *section {
	return &section{
		title: "No headers",
		note:  "100 a minute for each client, `headers off`, over plain `respond`.",
		trials: []*trial{
			newTrial("plain/bare", "bare Caddy", caddyServer("plain").quiet()),
			newTrial("plain/memory", "this module, in process", caddyServer("memory-plain", limitPlain).quiet()),
			newTrial("plain/mholt", "mholt/caddy-ratelimit", caddyServer("mholt", limitMholt).quiet()),
		},
	}
}

// deniedSection asks so many clients that each comes about four times before its node forgets the denial.
func deniedSection() *section {
	const clients = 3000
	constant := constantHeaders("1", "0")
	return &section{
		title: "Denied",
		note: "A flood from 3,000 clients that have used up their limit. Redis decides every fifth request, the node remembers the others. " +
			"`error 429` goes through Caddy's error routes, as denials do that one can handle.",
		trials: []*trial{
			newTrial("denied/bare", "bare Caddy", caddyServer("bare-denied", constant, "respond 429").denying()).of(clients),
			newTrial("denied/error", "bare Caddy, error routes", caddyServer("bare-error", constant, "error 429").denying()).of(clients),
			newTrial("denied/redis", "this module, Redis", moduleServer("denied", limitDenied).denying()).of(clients),
		},
	}
}

// fewSection compares requests on few connections, of which few are under way together.
func fewSection(connections, requests int) *section {
	s := &section{title: fmt.Sprint(connections, " connections"), note: "With headers, fewer requests under way together."}
	if connections == 1 {
		s.title, s.note = "One connection", "Lone requests, with headers."
	}
	for _, t := range []*trial{
		newTrial("bare", "bare Caddy", bare),
		newTrial("redis", "this module, Redis", redis),
		newTrial("evalsha", "one EVALSHA a request", evalSHA),
		newTrial("pipelined", "the same, by go-redis's AutoPipeliner", pipelined),
	} {
		t.name = fmt.Sprint("few", connections, "/", t.name)
		s.trials = append(s.trials, t.on(connections, requests))
	}
	return s
}
