package storepool

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
)

// TestLossLines plays outages and losses, each a number of seconds after the one before it. An outage has one line,
// whichever loss is first and whether it comes before or after the breaker opens.
func TestLossLines(t *testing.T) {
	type step struct {
		after int
		what  string // "outage", "recovery", "line" or "silent": a loss with a line, or without
	}
	for name, steps := range map[string][]step{
		"the losses of an outage":                 {{0, "outage"}, {1, "line"}, {1, "silent"}, {3600, "silent"}},
		"losses before the outage is noticed":     {{0, "line"}, {0, "outage"}, {1, "silent"}, {3600, "silent"}},
		"losses without an outage":                {{0, "line"}, {59, "silent"}, {1, "line"}, {1, "silent"}},
		"an outage long after a loss":             {{0, "line"}, {3600, "outage"}, {1, "line"}, {1, "silent"}},
		"outages in a row":                        {{0, "outage"}, {1, "line"}, {1, "recovery"}, {1, "outage"}, {1, "line"}, {1, "silent"}},
		"a loss between outages":                  {{0, "outage"}, {1, "line"}, {1, "recovery"}, {1, "silent"}, {1, "outage"}, {1, "line"}, {1, "silent"}},
		"a loss long after an outage":             {{0, "outage"}, {1, "line"}, {1, "recovery"}, {60, "line"}, {1, "silent"}},
		"an outage without losses, and one after": {{0, "outage"}, {9, "recovery"}, {1, "line"}, {0, "outage"}, {1, "silent"}},
	} {
		t.Run(name, func(t *testing.T) {
			var l lossLines
			now := time.Now()
			for i, s := range steps {
				now = now.Add(time.Duration(s.after) * time.Second)
				switch s.what {
				case "outage":
					l.begin(now)
				case "recovery":
					l.end()
				default:
					assert.Equal(t, l.due(now), s.what == "line", "step %d, %s: a line is due", i, s.what)
				}
			}
		})
	}
}

func TestTrace_is_nothing_without_a_span(t *testing.T) {
	ask := traceStore(dial.Connection{})
	assert.ErrorIf(t, ask(t.Context()) != nil, "a span began")
	if allocations := testing.AllocsPerRun(100, func() { ask(t.Context()) }); allocations > 1 { // that of t.Context
		t.Errorf("%v allocations", allocations)
	}
}

// TestOutageReporter_close ends the outage of a store that is closed, unless the running configuration has one.
func TestOutageReporter_close(t *testing.T) {
	t.Parallel()
	decides, fails := &outageReporter{}, &outageReporter{}
	fails.unreadSince.Store(new(time.Now()))
	for name, c := range map[string]struct {
		newest   *Stores
		inOutage bool
		ended    int
	}{
		"no outage":     {&Stores{Redis: &Redis{outages: decides}}, false, 0},
		"nothing runs":  {nil, true, 1},
		"without redis": {&Stores{}, true, 1},
		"it decides":    {&Stores{Redis: &Redis{outages: decides}}, true, 1},
		"it fails too":  {&Stores{Redis: &Redis{outages: fails}}, true, 0},
	} {
		ended := 0
		r := &outageReporter{metrics: Metrics{Recovery: func(time.Duration) { ended++ }}, newest: func() *Stores { return c.newest }}
		if c.inOutage {
			r.outageSince.Store(new(time.Now()))
		}
		r.close()
		r.close()
		assert.Equal(t, ended, c.ended, "outages that ended: %s", name)
	}
}
