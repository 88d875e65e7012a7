// Package waiting measures requests that wait for a place: with real nodes beside the simulation of the same, and beside
// HAProxy. It runs with WAITING=long.
package waiting

import (
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"
)

// long skips a test that takes minutes, unless WAITING=long is set.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("WAITING") != "long" {
		t.Skip("it takes minutes; WAITING=long runs it")
	}
}

// gauge counts what waits and what runs of some keys with one limit each.
type gauge struct {
	limit int

	mu         sync.Mutex
	keys       map[string]*load
	busy, used float64 // seconds in which a request of a key waits, and the unit seconds that run then
	waits      map[string][]time.Duration
	starts     int
	above      int // starts beyond the limit
}

// load is what waits and runs of a key.
type load struct {
	waiting, running int
	changed          time.Time
}

func newGauge(limit int) *gauge {
	return &gauge{limit: limit, keys: map[string]*load{}, waits: map[string][]time.Duration{}}
}

// begin forgets what was measured.
func (g *gauge) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.keys {
		l.changed = time.Now()
	}
	g.busy, g.used, g.waits, g.starts, g.above = 0, 0, map[string][]time.Duration{}, 0, 0
}

func (g *gauge) change(key string, waiting, running int) *load {
	now, l := time.Now(), g.keys[key]
	if l == nil {
		l = &load{changed: now}
		g.keys[key] = l
	}
	if l.waiting > 0 {
		since := now.Sub(l.changed).Seconds()
		g.busy += since
		g.used += since * float64(min(l.running, g.limit))
	}
	l.changed = now
	l.waiting, l.running = l.waiting+waiting, l.running+running
	return l
}

// arrive counts a request that waits from now on.
func (g *gauge) arrive(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.change(key, 1, 0)
}

// start counts a request of a group that has waited, and runs.
func (g *gauge) start(key, group string, waited time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.change(key, -1, 1).running > g.limit {
		g.above++
	}
	g.waits[group] = append(g.waits[group], waited)
	g.starts++
}

// end counts a request that runs no more.
func (g *gauge) end(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.change(key, 0, -1)
}

// use returns the part of the places that were used while a request waited.
func (g *gauge) use() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used / max(g.busy, 1e-9) / float64(g.limit)
}

// waitOf returns how often a group has started, its mean wait and its longest, in seconds.
func (g *gauge) waitOf(group string) (starts int, mean, longest float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range g.waits[group] {
		mean += w.Seconds()
		longest = max(longest, w.Seconds())
	}
	starts = len(g.waits[group])
	return starts, mean / float64(max(1, starts)), longest
}

// service returns how long a request runs: the mean, and up to a tenth less or more.
func service(mean time.Duration) time.Duration {
	return time.Duration(float64(mean) * (0.9 + 0.2*rand.Float64()))
}

// pauseOf returns how long a client pauses between two requests: the mean, and up to a half less or more.
func pauseOf(mean time.Duration) time.Duration {
	return time.Duration(float64(mean) * (0.5 + rand.Float64()))
}

func rand01() float64 { return rand.Float64() }
