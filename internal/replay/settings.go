package replay

import (
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// shownPlaceholder is how much of a placeholder is shown, in characters.
const shownPlaceholder = 80

// LimitText is the limit as it counts: a number, or the placeholder that sets it and what counts else. It
// is fit for a terminal.
func (r *PolicyResult) LimitText() string { return orElse(r.LimitFrom, r.Limit) }

// BurstText is the burst in the way of LimitText.
func (r *PolicyResult) BurstText() string { return orElse(r.BurstFrom, r.Burst) }

func orElse(placeholder string, n int64) string {
	if placeholder == "" {
		return number(n)
	}
	return accesslog.Printable(placeholder, shownPlaceholder) + ", else " + number(n)
}

// Options are those of the policy's options beside limit, window and algorithm that are set, in the words
// of a Caddyfile. They are fit for a terminal.
func (r *PolicyResult) Options() []string {
	options := []string{}
	if r.Burst > 0 || r.BurstFrom != "" {
		options = append(options, "burst "+r.BurstText())
	}
	if r.MaxDelay > 0 {
		options = append(options, "max_delay "+length(r.MaxDelay))
	}
	if r.CountIf {
		options = append(options, "count_if")
	}
	if r.Charge != "" {
		options = append(options, "charge "+accesslog.Printable(r.Charge, shownPlaceholder))
	}
	if r.DryRun {
		options = append(options, "dry run")
	}
	return options
}

// length is a duration as in a Caddyfile: 1m and not 1m0s.
func length(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
