package main

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/contenders"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/delay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/report"
)

func loneSection() *section {
	s := &section{
		title:     "one connection, p50",
		note:      "The time of a request alone in its batch.",
		sometimes: true,
		trials: compare(
			wrkTrial("lone/evalsha", "one EVALSHA a request", oneEvalSHA, 1),
			wrkTrial("lone/redis", "this module, Redis", onRedis, 1).aim(report.Target{AtMost: 1.10}),
		),
	}
	return s.by(report.P50)
}

// peakFraction is the part of a peak load that constant loads have.
const peakFraction = 0.7

// latencySection begins with the peak trial. The constant loads of other sections depend on it.
func latencySection() *section {
	peak := wrkTrial("p99/evalsha-peak", "one EVALSHA a request, peak", oneEvalSHA, connections)
	ownPeak := wrkTrial("p99/redis-peak", "this module, peak", onRedis, connections)
	peak.generator, ownPeak.generator = true, true
	steady := compare(
		wrkTrial("p99/evalsha", "one EVALSHA, 70 % of its peak", oneEvalSHA, connections),
		wrkTrial("p99/redis", "this module, the same load", onRedis, connections).aim(report.Target{AtMost: 1.50}),
		wrkTrial("p99/redis-own", "this module, 70 % of its peak", onRedis, connections).aim(report.Target{AtMost: 1.50}),
	)
	for _, t := range steady {
		t.peak, t.fraction = peak, peakFraction
	}
	steady[2].peak = ownPeak
	s := &section{
		title:     "70 % of the peak load, p99",
		note:      "Requests are due at a constant rate, whatever the answers, and a latency counts from the instant that its request was due.",
		sometimes: true,
		trials:    append([]*trial{peak, ownPeak}, steady...),
	}
	return s.by(report.P99)
}

func slowSection(peak *trial) *section {
	slow := store{delay: delay.Options{SlowFraction: 0.05, SlowDelay: 50 * time.Millisecond}}
	s := &section{
		title:     "5 % of replies 50 ms late, p99",
		note:      "The p99 is that of the other requests, those whose reply came in time, at half the constant load of the rows before, under which the bare Caddy has a p99 well below the target. A reply is what Redis sends at once, so that a batch is late as a whole.",
		sometimes: true,
		trials: []*trial{
			wrkTrial("slow/evalsha", "one EVALSHA a request", contenderServer("evalsha-slow", slow, contenders.EvalSHA), manyClients),
			wrkTrial("slow/redis", "this module, Redis", moduleServer("redis-slow", slow, limitAllowed), manyClients).
				aim(report.Target{Within: 10 * time.Millisecond}),
			wrkTrial("slow/bare", "bare Caddy, without Redis", bare, manyClients),
		},
	}
	for _, t := range s.trials {
		t.peak, t.fraction, t.others = peak, peakFraction/2, t.server.name != bare.name
	}
	return s.by(report.P99)
}
