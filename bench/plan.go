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
	name   string
	server server
	keys   int // clients
}

// section holds the trials of one group. All are compared with the first.
type section struct {
	title, note string
	trials      []*trial
}

// connections are those of each trial.
const connections = 64

// plan returns all trials in the order of the page.
func plan() []*section {
	return []*section{allowedSection(), headersOffSection(), hotKeySection(), deniedSection()}
}

func newTrial(name, title string, s server) *trial {
	return &trial{
		Row:  report.Row{Title: title, Ours: strings.HasPrefix(title, "this module")},
		name: name, server: s, keys: load.Keys,
	}
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

// inTurn returns the section's trials for a round, counted from 0. Every second round measures them backwards, so
// that a drift of the machine's speed does not favor one end.
func (s *section) inTurn(round int) []*trial {
	if round%2 == 0 {
		return s.trials
	}
	backwards := slices.Clone(s.trials)
	slices.Reverse(backwards)
	return backwards
}

// selected returns the trials whose name contains one of the comma-separated words, with those that they are
// compared with. Without words it returns all.
func selected(sections []*section, words string) []*section {
	named := func(t *trial) bool {
		return slices.ContainsFunc(strings.Split(words, ","), func(word string) bool { return strings.Contains(t.name, word) })
	}
	return slices.DeleteFunc(sections, func(s *section) bool {
		some, first := slices.ContainsFunc(s.trials, named), s.trials[0]
		s.trials = slices.DeleteFunc(s.trials, func(t *trial) bool { return t != first && !named(t) })
		return !some
	})
}

// rows returns the sections as groups of the report.
func rows(sections []*section) []*report.Group {
	var groups []*report.Group
	for _, s := range sections {
		g := &report.Group{Title: s.title, Note: s.note}
		for _, t := range s.trials {
			t.Against = &s.trials[0].Row
			g.Rows = append(g.Rows, &t.Row)
		}
		groups = append(groups, g)
	}
	return groups
}
