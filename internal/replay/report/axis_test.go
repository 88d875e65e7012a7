package report

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// ticksOf are the labels of a chart's horizontal axis, from left to right.
func ticksOf(c *chart) []chartText {
	ticks := slices.DeleteFunc(slices.Clone(c.Texts), func(text chartText) bool { return text.Class != "tick" || text.Anchor != "middle" })
	slices.SortFunc(ticks, func(a, b chartText) int { return cmp.Compare(a.X, b.X) })
	return ticks
}

func TestLogAxis_labels(t *testing.T) {
	for high := int64(2); high < 5_000_000; high += 1 + high/7 {
		for _, low := range []int64{1, high / 30, high / 2} {
			ladder := replay.Ladder{Limits: []replay.LimitResult{{Limit: max(1, low)}, {Limit: high}}}
			ticks := ticksOf(curveChart("curve", &replay.Suggestions{Window: time.Minute}, ladder, 0))
			for i, tick := range ticks[min(1, len(ticks)):] {
				before := ticks[i]
				gap := tick.X - before.X - (textWidth(tick.Text)+textWidth(before.Text))/2
				redistest.ErrorIf(t, gap < 5.8, "from %d to %d: %.1f between %q and %q", low, high, gap, before.Text, tick.Text)
			}
		}
	}
}

func TestCurve_without_denials(t *testing.T) {
	s := &replay.Suggestions{Requests: 9, Clients: 3, Window: time.Minute}
	l := replay.Ladder{Limits: []replay.LimitResult{{Limit: 1}, {Limit: 2}}}
	s.Ladders = []replay.Ladder{l}
	var labels []string
	for _, text := range curveChart("curve", s, l, 0).Texts {
		labels = append(labels, text.Text)
	}
	redistest.ErrorIf(t, !slices.Contains(labels, axisPercent(100)) || slices.Contains(labels, axisPercent(0.01)), "labels %q", labels)
}
