package main

import (
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/load"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/report"
)

// trial is a row of the table, with what is needed to measure it.
type trial struct {
	report.Row
	name        string
	server      server
	connections int
	keys        int     // clients
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
	sometimes   bool // measured in every second round, to save time
}

// connections are those of the main comparison.
const connections = 64

// plan returns all trials in the order of the page.
func plan() []*section {
	latency := latencySection()
	return []*section{
		allowedSection(),
		headersOffSection(),
		hotKeySection(),
		policiesSection(),
		deniedSection(),
		linkSection(),
		clusterSection(),
		loneSection(),
		latency,
		slowSection(latency.trials[0]),
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
	return &trial{
		Row:  report.Row{Title: title, Ours: strings.HasPrefix(title, "this module")},
		name: name, server: s, connections: connections, keys: load.Keys,
	}
}

func (t *trial) aim(target report.Target) *trial {
	t.Target = target
	return t
}

// ofOneKey has all requests come from one client.
func (t *trial) ofOneKey() *trial {
	t.keys = 1
	return t
}

// alone marks a limiter that runs beside a web server.
func (t *trial) alone() *trial {
	t.Alone = true
	return t
}

// by sets the measure that the section's trials compare.
func (s *section) by(m report.Measure) *section {
	for _, t := range s.trials {
		t.Measure = m
	}
	return s
}

// inTurn returns what a round, counted from 0, measures of the section. Every second round measures it
// backwards, so that a drift of the machine's speed does not favor one end. Constant loads depend on peaks
// of the same round, and stay in order.
func (s *section) inTurn(round int) []*trial {
	switch {
	case round%2 == 0:
		return s.trials
	case s.sometimes:
		return nil
	}
	backwards := slices.Clone(s.trials)
	slices.Reverse(backwards)
	return backwards
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
