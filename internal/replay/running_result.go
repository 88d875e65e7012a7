package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// runningResult is how many requests of a key were running at once according to the log, had none of them been
// denied. A request runs from its arrival to the end of its response. Under a max_concurrent it counts by its
// weight, otherwise as one.
type runningResult struct {
	// Requests counts the requests, Untimed those of them that are left out because the log has no duration.
	Requests int64 `json:"requests"`
	Untimed  int64 `json:"untimed"`

	// Peak is the most of one key, and Together the most of all keys, with the first instants of each.
	Peak       int64     `json:"peak"`
	PeakAt     time.Time `json:"peak_at"`
	Together   int64     `json:"together"`
	TogetherAt time.Time `json:"together_at"`

	// Clients counts the keys, Peaks counts them by their peak. Busiest are those with the highest peaks, at
	// most Options.Worst.
	Clients int             `json:"clients"`
	Peaks   []peakRate      `json:"peaks"`
	Busiest []runningClient `json:"busiest_clients"`

	// Limits is what each limit of running requests would have denied; nil unless limits are suggested. A
	// request that a limit denies does not run under it.
	Limits *Ladder `json:"limits,omitempty"`
}

// runningClient is a key with many running requests.
type runningClient struct {
	Key      string    `json:"key"`
	Requests int64     `json:"requests"`
	Peak     int64     `json:"peak"`
	PeakAt   time.Time `json:"peak_at"` // when it was reached first
}

// result returns what was found out, with so many keys; nil without a duration in the log. The limit is the
// policy's own, 0 for none.
func (r *running) result(worst int, own int64) *runningResult {
	if r.requests == r.untimed {
		return nil
	}
	result := &runningResult{
		Requests: r.requests, Untimed: r.untimed, Clients: len(r.keys), Together: r.mostTogether,
		Busiest: make([]runningClient, 0, len(r.keys)),
	}
	peaks := make([]int64, 0, len(r.keys))
	for name, number := range r.names {
		k := &r.keys[number]
		if peaks = append(peaks, k.peak); k.peak > 0 {
			result.Busiest = append(result.Busiest, runningClient{Key: name, Requests: k.requests, Peak: k.peak, PeakAt: instant(k.peakAt)})
		}
	}
	slices.Sort(peaks)
	slices.SortFunc(result.Busiest, func(a, b runningClient) int {
		return cmp.Or(cmp.Compare(b.Peak, a.Peak), a.PeakAt.Compare(b.PeakAt), strings.Compare(a.Key, b.Key))
	})
	if len(result.Busiest) > 0 {
		result.Peak, result.PeakAt = result.Busiest[0].Peak, result.Busiest[0].PeakAt
		result.TogetherAt = instant(r.togetherAt)
	}
	result.Busiest = slices.Clone(result.Busiest[:min(worst, len(result.Busiest))])
	result.Peaks = histogram(peaks, own)
	return result
}

// untimedSentence returns a sentence about the requests of a policy whose end the log does not tell; empty without
// any.
func (p *policyTally) untimedSentence() string {
	switch {
	case p.running == nil || p.running.untimed == 0:
		return ""
	case p.running.untimed == p.running.requests:
		return fmt.Sprintf("policy %s: the log has no durations, so that every request ends as it begins and none runs beside another", p.result.Name)
	}
	return fmt.Sprintf("policy %s: without a duration in the log, so that they end as they begin: %s", p.result.Name, display.Counted(p.running.untimed, "request"))
}
