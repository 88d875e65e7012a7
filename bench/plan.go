package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/report"
)

// trial is a row of the table, with what is needed to measure it.
type trial struct {
	report.Row
	name        string
	server      server
	connections int
	against     *trial  // the row of the comparison; nil: none
	generator   bool    // load by the generator of package load instead of wrk
	peak        *trial  // load at a constant rate, a fraction of the rate that this one reached
	fraction    float64 // of the peak
	others      bool    // the P99 leaves out requests whose reply was slowed down
}

// section holds the trials of one group.
type section struct {
	title, note string
	trials      []*trial
}

// Loads of several rows.
const (
	peakFraction = 0.7
	manyClients  = 512
)

// plan returns all trials in the order of the page.
func plan(connections int) []*section {
	latency := latencySection(connections)
	return []*section{
		allowedSection(connections),
		deniedSection(connections),
		linkSection(),
		loneSection(),
		latency,
		slowSection(latency.trials[0]),
		clusterSection(connections),
	}
}

// compare sets the first trial as the comparison of all.
func compare(trials ...*trial) []*trial {
	for _, t := range trials {
		t.against = trials[0]
	}
	return trials
}

func wrkTrial(name, title string, s server, connections int) *trial {
	return &trial{name: name, Row: report.Row{Title: title, Ours: strings.HasPrefix(title, "this module")}, server: s, connections: connections}
}

func (t *trial) aim(target report.Target) *trial {
	t.Target = target
	return t
}

func allowedSection(connections int) *section {
	return &section{
		title: fmt.Sprintf("%d connections, allowed", connections),
		note:  "`respond \"ok\"` to 5,000 clients far below their limit; the bare Caddy sends three constant headers of the same size. envoyproxy/ratelimit stands alone, without a web server before it, and counts in fixed windows.",
		trials: compare(
			wrkTrial("64/bare", "bare Caddy", serverBare, connections),
			wrkTrial("64/memory", "this module, in process", serverMemory, connections).aim(report.Target{AtLeast: 0.93}),
			wrkTrial("64/redis", "this module, Redis", serverRedis, connections).aim(report.Target{AtLeast: 0.70}),
			wrkTrial("64/autopipeline", "go-redis AutoPipeline", serverAutoPipeline, connections),
			wrkTrial("64/redis_rate", "redis_rate v10", serverRedisRate, connections),
			wrkTrial("64/evalsha", "one EVALSHA a request", serverEvalSHA, connections),
			wrkTrial("64/envoy", "envoyproxy/ratelimit, alone", serverEnvoy, connections),
		),
	}
}

func deniedSection(connections int) *section {
	return &section{
		title: fmt.Sprintf("%d connections, denied", connections),
		note:  "A flood from 5,000 clients that have used up their limit. The bare Caddy is `respond 429` with three constant headers; `error 429` with the same headers goes through Caddy's error routes, as denials do, and Caddy describes the request for its error log there.",
		trials: compare(
			wrkTrial("denied/bare", "bare Caddy", serverBareDenied, connections),
			wrkTrial("denied/error", "bare Caddy, error routes", serverBareError, connections),
			wrkTrial("denied/redis", "this module, Redis", serverDenied, connections).aim(report.Target{AtLeast: 0.90}),
		),
	}
}

func linkSection() *section {
	target := report.Target{AtLeast: 0.60}
	return &section{
		title: fmt.Sprintf("%d connections, slower link", manyClients),
		note:  "A proxy holds each of Redis's replies back, and takes its own part of the processors for that.",
		trials: compare(
			wrkTrial("512/bare", "bare Caddy", serverBare, manyClients),
			wrkTrial("512/redis-1ms", "this module, Redis 1 ms away", serverRedis1ms, manyClients).aim(target),
			wrkTrial("512/redis-5ms", "this module, Redis 5 ms away", serverRedis5ms, manyClients).aim(target),
			wrkTrial("512/redis-20ms", "this module, Redis 20 ms away", serverRedis20ms, manyClients).aim(target),
		),
	}
}

func loneSection() *section {
	s := &section{
		title: "one connection, p50",
		note:  "The time of a request alone in its batch.",
		trials: compare(
			wrkTrial("lone/evalsha", "one EVALSHA a request", serverEvalSHA, 1),
			wrkTrial("lone/redis", "this module, Redis", serverRedis, 1).aim(report.Target{AtMost: 1.10}),
		),
	}
	return s.by(report.P50)
}

// by sets the measure that the section's trials compare.
func (s *section) by(m report.Measure) *section {
	for _, t := range s.trials {
		t.Measure = m
	}
	return s
}

// latencySection begins with the peak trial. The constant loads of other sections depend on it.
func latencySection(connections int) *section {
	peak := wrkTrial("p99/evalsha-peak", "one EVALSHA a request, peak", serverEvalSHA, connections)
	ownPeak := wrkTrial("p99/redis-peak", "this module, peak", serverRedis, connections)
	peak.generator, ownPeak.generator = true, true
	steady := compare(
		wrkTrial("p99/evalsha", "one EVALSHA, 70 % of its peak", serverEvalSHA, connections),
		wrkTrial("p99/redis", "this module, the same load", serverRedis, connections).aim(report.Target{AtMost: 1.50}),
		wrkTrial("p99/redis-own", "this module, 70 % of its peak", serverRedis, connections).aim(report.Target{AtMost: 1.50}),
	)
	for _, t := range steady {
		t.peak, t.fraction, t.Measure = peak, peakFraction, report.P99
	}
	steady[2].peak = ownPeak
	return &section{
		title:  "70 % of the peak load, p99",
		note:   "Requests are due at a constant rate, whatever the answers, and a latency counts from the instant that its request was due.",
		trials: append([]*trial{peak, ownPeak}, steady...),
	}
}

func slowSection(peak *trial) *section {
	trials := []*trial{
		wrkTrial("slow/evalsha", "one EVALSHA a request", serverEvalSHASlow, manyClients),
		wrkTrial("slow/redis", "this module, Redis", serverRedisSlow, manyClients).aim(report.Target{Within: 10 * time.Millisecond}),
		wrkTrial("slow/bare", "bare Caddy, which asks no Redis", serverBare, manyClients),
	}
	for _, t := range trials {
		t.peak, t.fraction, t.others, t.Measure = peak, peakFraction/2, t.server != serverBare, report.P99
	}
	return &section{
		title:  "5 % of replies 50 ms late, p99",
		note:   "The p99 is that of the other requests, those whose reply came in time, at half the constant load of the rows before, under which the bare Caddy has a p99 well below the target. A reply is what Redis sends at once, so that a batch is late as a whole.",
		trials: trials,
	}
}

func clusterSection(connections int) *section {
	return &section{
		title: fmt.Sprintf("%d conn., cluster of 3 masters", connections),
		trials: compare(
			wrkTrial("cluster/evalsha", "one EVALSHA a request", serverEvalSHACluster, connections),
			wrkTrial("cluster/redis", "this module, Redis Cluster", serverRedisCluster, connections).aim(report.Target{AtLeast: 1.30}),
		),
	}
}

// selected returns the trials whose name contains one of the comma-separated words, with the trials
// that they depend on. Without words it returns all.
func selected(sections []*section, words string) []*section {
	needed := map[*trial]bool{}
	for _, s := range slices.Backward(sections) { // a trial stands after those that it depends on
		for _, t := range slices.Backward(s.trials) {
			named := func(word string) bool { return strings.Contains(t.name, word) }
			if needed[t] || slices.ContainsFunc(strings.Split(words, ","), named) {
				needed[t], needed[t.against], needed[t.peak] = true, true, true
			}
		}
	}
	for _, s := range sections {
		s.trials = slices.DeleteFunc(s.trials, func(t *trial) bool { return !needed[t] })
	}
	return slices.DeleteFunc(sections, func(s *section) bool { return len(s.trials) == 0 })
}

// rows returns the sections as groups of the report.
func rows(sections []*section) []*report.Group {
	var groups []*report.Group
	for _, s := range sections {
		g := &report.Group{Title: s.title, Note: s.note}
		for _, t := range s.trials {
			if t.against != nil {
				t.Against = &t.against.Row
			}
			g.Rows = append(g.Rows, &t.Row)
		}
		groups = append(groups, g)
	}
	return groups
}
