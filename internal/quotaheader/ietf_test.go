package quotaheader

import (
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// quotaItem is what quotaText writes, by the library.
func quotaItem(c *limiter.Check) httpsfv.Item {
	item := httpsfv.NewItem(c.Policy.Name())
	item.Params.Add("r", c.Result.Remaining)
	switch {
	case c.Policy.CountsRunning():
	case c.Result.Passes():
		item.Params.Add("t", CeilSeconds(c.Result.ResetAfter))
	case c.Result.RetryAfter != limiter.Never:
		item.Params.Add("t", CeilSeconds(c.Result.RetryAfter))
	}
	return item
}

// FuzzQuotaText compares the quotas of any results, those of running requests too, with what the library for
// structured fields writes.
func FuzzQuotaText(f *testing.F) {
	named := func(s limiter.Settings) *limiter.Policy {
		s.Name = "p-1_x"
		p, err := limiter.NewPolicy(s)
		redistest.Must(f, err)
		return p
	}
	policies := []*limiter.Policy{
		named(limiter.Settings{Algorithm: limiter.GCRA, Limit: 100, Window: time.Minute}),
		named(limiter.Settings{MaxConcurrent: 100}),
	}
	for _, remaining := range []int64{0, 99, maxInteger, maxInteger + 1} {
		for _, wait := range []int64{int64(limiter.Never), 0, 1, 60e9, 1<<63 - 1e9} {
			f.Add(remaining, wait, int64(0))
			f.Add(remaining, int64(0), wait)
			f.Add(remaining, wait, wait)
		}
	}
	f.Fuzz(func(t *testing.T, remaining, retryAfter, resetAfter int64) {
		const most = 1<<63 - 1 - time.Second // so that rounding up does not overflow
		result := limiter.Result{
			Remaining:  max(0, remaining),
			RetryAfter: min(most, max(limiter.Never, time.Duration(retryAfter))),
			ResetAfter: min(most, max(limiter.Never, time.Duration(resetAfter))),
		}
		for _, p := range policies {
			c := &limiter.Check{Policy: p, Result: result}
			got, want := quotaText(c), itemText(quotaItem(c))
			redistest.ErrorIf(t, got != want, "%+v of %s: got %q, want %q", result, p.Settings(), got, want)
		}
	})
}
