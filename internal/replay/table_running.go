package replay

import (
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// running prints how many requests ran at once, and the keys that had the most.
func (p printer) running(r *runningResult) {
	if r.Peak == 0 {
		return
	}
	p.line("")
	p.line("  at once in the log: at most %s of one key (%s), %s of all keys (%s)",
		display.Count(r.Peak), minute(r.PeakAt), display.Count(r.Together), minute(r.TogetherAt))
	var rows [][]string
	for _, k := range r.Busiest {
		rows = append(rows, []string{display.Count(k.Peak), display.Count(k.Requests), minute(k.PeakAt), display.EscapeShort(k.Key, 60)})
	}
	if len(rows) > 0 {
		p.table(2, []string{"AT ONCE", "REQUESTS", "FIRST", "KEY"}, rows)
	}
}

// runningLimits prints what limits of running requests would have denied, and the peaks unless they stand above.
func (p printer) runningLimits(s *suggestions, peaksAbove bool) {
	r := s.Running
	if r == nil {
		return
	}
	timed := r.Requests - r.Untimed
	p.line("")
	p.line("limits of requests running at once, on the %s of %s that met policy %s,", display.Counted(timed, "request"), display.Counted(r.Clients, "key"), s.Policy)
	p.line("each for the key %s; the smallest that leave keys untouched:", display.EscapeShort(s.Key, 40))
	p.table(3, []string{"99 %", "99.9 %", "ALL", "ALGORITHM"}, [][]string{
		{untouched(r.Limits.Untouched99), untouched(r.Limits.Untouched999), untouched(r.Limits.Untouched100), r.Limits.Algorithm},
	})
	if r.Untimed > 0 {
		p.line("  left out, without a duration in the log: %s", display.Counted(r.Untimed, "request"))
	}
	if !peaksAbove {
		p.running(r)
	}
	p.line("")
	p.line("  %s:", r.Limits.Algorithm)
	p.sample(r.Limits.Sample, r.Clients)
	p.ladder(r.Limits, timed, r.Clients)
}

// showsRunning reports whether the policy that limits are suggested for shows the running requests of the same keys.
func (r *Result) showsRunning() bool {
	return slices.ContainsFunc(r.Policies, func(p PolicyResult) bool {
		return p.Name == r.Suggestions.Policy && p.Key() == r.Suggestions.Key && p.Running != nil
	})
}
