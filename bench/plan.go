package main

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/report"
)

// trial is a row of the table, with what is needed to measure it.
type trial struct {
	report.Row
	name        string
	server      server
	keys        int // clients
	connections int
	requests    int // of a round
	warmUp      int // requests before these
	base        *trial
	single      *trial // has one policy where this one has several; nil: not compared
	leftOut     bool   // its server cannot run here
}

// section holds the trials of one group. All are compared with the first.
type section struct {
	title, note string
	asked       bool // measured only if a word names its rows
	trials      []*trial
}

// newTrial is a trial of so many requests that a round measures it for half a second.
func newTrial(name, title string, s server) *trial {
	return &trial{
		Row:  report.Row{Title: title, Ours: strings.HasPrefix(title, "this module")},
		name: name, server: s, keys: 5000, connections: 64, requests: 10_000, warmUp: 1000,
	}
}

// of has all requests come from so many clients.
func (t *trial) of(keys int) *trial {
	t.keys = keys
	return t
}

// on has the trial use so many connections. Their row stands in the table only.
func (t *trial) on(connections, requests int) *trial {
	t.connections, t.requests, t.warmUp, t.NoBar = connections, requests, requests/10, true
	return t
}

// alone marks a limiter that runs beside a web server.
func (t *trial) alone() *trial {
	t.Alone = true
	return t.long()
}

// long marks a row that does not set the scale of the chart.
func (t *trial) long() *trial {
	t.Long = true
	return t
}

// beside has the time of Redis compared with that of a trial with one policy.
func (t *trial) beside(single *trial) *trial {
	t.single, t.Single = single, &single.Row
	return t
}

// same marks the first row's server in a second process, as a check of the measure.
func (t *trial) same() *trial {
	t.Check = true
	return t
}

// plan returns all trials in the order of the page.
func plan() []*section {
	sections := []*section{
		headersSection(), severalSection(), plainSection(), deniedSection(), fewSection(8, 10_000), fewSection(2, 5000), fewSection(1, 3000),
		floorSection(), loneFloorSection(),
	}
	for _, s := range sections {
		for _, t := range s.trials {
			t.base = s.trials[0]
			t.Base = &t.base.Row
		}
	}
	return sections
}

// selected returns the trials whose name contains one of the comma-separated words, with those that they are
// compared with. Without words it returns all but those that have to be asked for.
func selected(sections []*section, words string) []*section {
	named := func(t *trial) bool {
		return slices.ContainsFunc(strings.Split(words, ","), func(word string) bool { return strings.Contains(t.name, word) })
	}
	return slices.DeleteFunc(sections, func(s *section) bool {
		var chosen []*trial
		for _, t := range s.trials {
			if named(t) {
				chosen = append(chosen, t, t.base, t.single)
			}
		}
		s.trials = slices.DeleteFunc(s.trials, func(t *trial) bool { return !slices.Contains(chosen, t) })
		return len(chosen) == 0 || s.asked && words == ""
	})
}

// due returns the trials of a round in random order: those whose interval is too wide, and what they are
// compared with.
func due(sections []*section, random *rand.Rand, leastRounds int) []*trial {
	var trials []*trial
	for _, s := range sections {
		for _, t := range s.trials {
			if len(t.Samples) < leastRounds || !t.Settled() {
				for _, t := range []*trial{t, t.base, t.single} {
					if t != nil && !slices.Contains(trials, t) {
						trials = append(trials, t)
					}
				}
			}
		}
	}
	random.Shuffle(len(trials), func(i, j int) { trials[i], trials[j] = trials[j], trials[i] })
	return trials
}

// groups returns the sections as groups of the report.
func groups(sections []*section) []*report.Group {
	var groups []*report.Group
	for _, s := range sections {
		g := &report.Group{Title: s.title, Note: s.note}
		for _, t := range s.trials {
			g.Rows = append(g.Rows, &t.Row)
		}
		groups = append(groups, g)
	}
	return groups
}
