package replay

import (
	"strconv"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
)

// shownPlaceholder is how much of a placeholder is shown, in characters.
const shownPlaceholder = 80

// LimitText returns the limit: a number, or the placeholder that sets it and the number that counts
// otherwise; behind the word max_concurrent if it is one. It is safe on a terminal.
func (r *PolicyResult) LimitText() string {
	from, n, word := r.LimitFrom, r.Limit, ""
	if r.CountsRunning() {
		from, n, word = r.MaxConcurrentFrom, r.MaxConcurrent, maxConcurrent+" "
	}
	if r.Unlimited {
		return word + escape.Short(from, shownPlaceholder) + ", else unlimited"
	}
	return word + orElse(from, n)
}

// WindowText returns the window: its length, or the calendar period and its time zone.
func (r *PolicyResult) WindowText() string { return windowText(r.Window, r.Calendar, r.TimeZone) }

// WindowText returns the window that was tried, as that of a policy.
func (s *Suggestions) WindowText() string { return windowText(s.Window, s.Calendar, s.TimeZone) }

func windowText(window time.Duration, calendar, zone string) string {
	if calendar != "" {
		return calendar + " (" + zone + ")"
	}
	return humanize.Compact(window)
}

// CountsRunning reports whether the policy counts requests while they run, and not in a window.
func (r *PolicyResult) CountsRunning() bool { return r.MaxConcurrent > 0 || r.MaxConcurrentFrom != "" }

// BurstText returns the burst as LimitText returns the limit.
func (r *PolicyResult) BurstText() string { return orElse(r.BurstFrom, r.Burst) }

func orElse(placeholder string, n int64) string {
	if placeholder == "" {
		return humanize.Count(n)
	}
	return escape.Short(placeholder, shownPlaceholder) + ", else " + humanize.Count(n)
}

// Options returns the policy's other options that are set, besides limit, window and algorithm, as in a
// Caddyfile. They are safe on a terminal.
func (r *PolicyResult) Options() []string {
	options := []string{}
	if r.Burst > 0 || r.BurstFrom != "" {
		options = append(options, "burst "+r.BurstText())
	}
	if r.MaxDelay > 0 {
		options = append(options, "max_delay "+humanize.Compact(r.MaxDelay))
	}
	if r.CountIf {
		options = append(options, "count_if")
	}
	if r.Cost != "" {
		options = append(options, "cost "+escape.Short(r.Cost, shownPlaceholder))
	}
	if r.Enforce != nil {
		options = append(options, "enforce "+strconv.FormatFloat(*r.Enforce, 'f', -1, 64)+"%")
	}
	if r.Reserve != "" {
		options = append(options, "reserve "+r.Reserve)
	}
	if r.DryRun {
		options = append(options, "dry run")
	}
	return options
}
