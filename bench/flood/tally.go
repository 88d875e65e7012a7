package main

import (
	"sync"
	"time"
)

// tally counts what happens in the measured time of a run.
type tally struct {
	mu     sync.Mutex
	result Result
}

func newTally() *tally {
	return &tally{result: Result{People: map[kind]Group{}, Programs: map[string]Count{}}}
}

// isMeasured reports whether what begins at a time of the run counts.
func isMeasured(at time.Duration) bool { return at >= settled && at < measured }

// click counts a click of a measured visit.
func (t *tally) click(k kind, o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.result.People[k]
	g.Pages.add(o.came && o.took < soon)
	g.Fast.add(o.came && o.took < time.Second)
	g.Late.add(o.came)
	g.Waited += o.waited
	g.Refused += o.refused
	t.result.People[k] = g
}

func (t *tally) visit(k kind, finished bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.result.People[k]
	g.Visits.add(finished)
	t.result.People[k] = g
}

// program counts a call, from the first measured visit to the end of the last one.
func (t *tally) program(name string, at time.Duration, came bool) {
	if at < settled {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.result.Programs[name]
	c.add(came)
	t.result.Programs[name] = c
}

func (t *tally) bot(at time.Duration, page bool) {
	if at < settled {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Bots.add(page)
}

// take returns what was counted. What ends later is not counted any more.
func (t *tally) take() Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.result
	t.result = newTally().result
	return r
}
