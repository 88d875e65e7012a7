package answer

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// quotaItem is what appendQuota writes, by the library.
func quotaItem(c *limiter.Check) httpsfv.Item {
	item := httpsfv.NewItem(c.Policy.Name())
	item.Params.Add("r", c.Result.Remaining)
	switch {
	case c.Policy.CountsRunning:
	case c.Result.Passes():
		item.Params.Add("t", CeilSeconds(c.Result.ResetAfter))
	case c.Result.RetryAfter != limiter.Never:
		item.Params.Add("t", CeilSeconds(c.Result.RetryAfter))
	}
	return item
}

// FuzzAppendQuota compares the quotas of any results, those of running requests too, with what the library for
// structured fields writes.
func FuzzAppendQuota(f *testing.F) {
	named := func(s limiter.Settings) *limiter.Policy {
		s.Name = "p-1_x"
		return assert.NoError(limiter.NewPolicy(s))(f)
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
			got, fits := appendQuota(nil, c, nil)
			want, err := httpsfv.Marshal(quotaItem(c))
			assert.ErrorIf(t, fits != (err == nil) || fits && string(got) != want, "%+v of %s: got %q, fits %t, want %q, %v", result, p.Settings, got, fits, want, err)
		}
	})
}

// TestSetRefusal_longest has waits around the longest that timers of node can count.
func TestSetRefusal_longest(t *testing.T) {
	const longest = 2_147_483
	for _, test := range []struct {
		wait, jitter time.Duration
		least, most  int64         // of Retry-After
		longer       time.Duration // at most, than the wait, is true
	}{
		{longest*time.Second - time.Minute, 0, longest - 60, longest - 60, 0},
		{longest * time.Second, 0, longest, longest, 0},
		{longest*time.Second + 1, 0, longest, longest, 0},
		{365 * 24 * time.Hour, 0, longest, longest, 0},
		{math.MaxInt64, 0, longest, longest, 0},
		{longest*time.Second - 10*time.Second, time.Hour, longest - 10, longest, 10 * time.Second}, // which is never too early
		{longest * time.Second, time.Hour, longest, longest, 0},
		{longest*time.Second + 1, time.Hour, longest - 3600, longest, time.Hour},
		{365 * 24 * time.Hour, 24 * time.Hour, longest - 86_400, longest, 24 * time.Hour},
		{math.MaxInt64, 24 * time.Hour, longest - 86_400, longest, 0},
	} {
		seen := map[string]bool{}
		for range 50 {
			header := http.Header{}
			wait := SetRefusal(header, nil, test.wait, test.jitter, nil)
			seen[header.Get(RetryAfter)] = true
			told := assert.NoError(strconv.ParseInt(header.Get(RetryAfter), 10, 64))(t)
			assert.ErrorIf(t, told < test.least || told > test.most, "%v with %v: Retry-After is %d", test.wait, test.jitter, told)
			assert.ErrorIf(t, wait.True < test.wait || wait.True > later(test.wait, test.longer), "%v with %v: in truth %v", test.wait, test.jitter, wait.True)

			policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "p", Algorithm: limiter.GCRA, Limit: 1, Window: time.Hour}))(t)
			var q Quotas
			var refusal RefusalValues
			q.Record([]limiter.Check{{Policy: policy, Result: limiter.Result{RetryAfter: test.wait}}}, IETF, time.Now())
			refusal.Deny(time.Now(), wait)
			q.SetHeaders(header, nil, nil, &refusal)
			want := min(CeilSeconds(test.wait), told)
			assert.Equal(t, header.Get(Quota), `"p";r=0;t=`+strconv.FormatInt(want, 10), "%v with %v: %s", test.wait, test.jitter, Quota)
		}
		assert.ErrorIf(t, test.most-test.least > 1000 && len(seen) < 25, "%v with %v: Retry-After has %d values of 50", test.wait, test.jitter, len(seen))
	}
}

func TestAppendPolicy(t *testing.T) {
	for _, test := range []struct {
		limit, burst int64
		window       time.Duration
		want         string
	}{
		{13, 0, time.Minute, "q=13;w=60"},
		{29, 0, time.Second, "q=29;w=1"},
		{7, 0, 999 * time.Millisecond, "q=7"},
		{3, 2, time.Second, "q=2"},
		{3, 4, time.Second, "q=4;w=1"},
		{10, 29, 7 * time.Second, "q=29;w=20"},
		{1, 3, 24 * time.Hour, "q=3;w=259200"},
		{49_999, 0, 24 * time.Hour, "q=49999;w=86400"},
		{1, 50_000, 24 * time.Hour, "q=50000;w=4320000000"},
	} {
		policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "p", Algorithm: "gcra", Limit: test.limit, Burst: test.burst, Window: test.window}))(t)
		got, fits := appendPolicy(nil, policy, limiter.Requests)
		assert.ErrorIf(t, !fits || string(got) != `"p";`+test.want,
			"limit %d, burst %d, window %v: got %s, fits %t, want %s", test.limit, test.burst, test.window, got, fits, test.want)
	}
}

func TestExpose(t *testing.T) {
	for _, test := range []struct{ credentials, exposed, want string }{
		{"", "", Limit},
		{"", "*", "*"},
		{"false", "*", "*"},
		{"true", "*", "*, " + Limit},
		{"true", "X-Other, x-ratelimit-limit", "X-Other, x-ratelimit-limit"},
	} {
		header := http.Header{Limit: {"10"}, "Access-Control-Allow-Origin": {"*"}}
		header.Set("Access-Control-Allow-Credentials", test.credentials)
		header.Set("Access-Control-Expose-Headers", test.exposed)
		Expose(header, nil, exposable)
		got := header.Get("Access-Control-Expose-Headers")
		assert.ErrorIf(t, got != test.want, "with credentials %q and %q: got %q, want %q", test.credentials, test.exposed, got, test.want)
	}
}

// FuzzHeaders shows any result that a store may give.
func FuzzHeaders(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0))
	f.Add(int64(99), int64(1), int64(1e18))
	f.Add(int64(5), int64(-1), int64(60e9))
	f.Add(int64(0), int64(math.MaxInt64), int64(math.MaxInt64)) // a block by an override that ends in the year 9999
	f.Add(int64(5), int64(0), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, remaining, retryAfter, resetAfter int64) {
		policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "p", Algorithm: "gcra", Limit: 100, Window: time.Minute}))(t)
		result := limiter.Result{Remaining: max(0, remaining%101), RetryAfter: max(limiter.Never, time.Duration(retryAfter)), ResetAfter: max(0, time.Duration(resetAfter))}
		var q Quotas
		now := time.Now()
		q.Record([]limiter.Check{{Policy: policy, Key: limiter.EncodeKey("k"), Result: result}}, XRateLimit|IETF, now)
		header := http.Header{}
		var refusal RefusalValues
		wait := SetRefusal(header, nil, result.RetryAfter, time.Second, &refusal)
		if result.RetryAfter != 0 { // denied
			refusal.Deny(now, wait)
		}
		q.SetHeaders(header, nil, nil, &refusal)
		for name, least := range map[string]int64{Limit: 100, Remaining: 0, Reset: now.Unix(), "Retry-After": 1} {
			value := header.Get(name)
			if (name == "Retry-After" || name == Reset) && result.RetryAfter == limiter.Never {
				assert.ErrorIf(t, value != "", "%s %q of what can never pass", name, value)
				continue
			}
			n, err := strconv.ParseInt(value, 10, 64)
			assert.ErrorIf(t, err != nil || n < least, "%s is %q for %+v, want a whole number from %d", name, value, result, least)
		}
		assert.ErrorIf(t, strings.Contains(header.Get(Quota), "=-"), "%s is %q for %+v", Quota, header.Get(Quota), result)
	})
}

// TestSetRefusal_shouldRetry has SDKs that Stainless generates, whose header says so, and others.
func TestSetRefusal_shouldRetry(t *testing.T) {
	stainless := http.Header{"X-Stainless-Lang": {"js"}}
	for _, test := range []struct {
		request      http.Header
		wait, jitter time.Duration
		want         string
	}{
		{stainless, time.Minute, 0, ""},
		{stainless, time.Minute + 1, 0, "false"},
		{stainless, 365 * 24 * time.Hour, 0, "false"},
		{stainless, limiter.Never, 0, "false"},
		{http.Header{"X-Stainless": {"js"}}, time.Hour, 0, ""},
		{nil, limiter.Never, 0, ""},
	} {
		header := http.Header{}
		SetRefusal(header, test.request, test.wait, test.jitter, nil)
		assert.Equal(t, header.Get(ShouldRetry), test.want, "%v after %v: %s", test.request, test.wait, ShouldRetry)
	}
}

// TestSetRefusal_again keeps the text of earlier headers, which logs may still have, when the memory for values is given once
// more, as to the refusal of a handler in an error route.
func TestSetRefusal_again(t *testing.T) {
	var values RefusalValues
	header, other := http.Header{}, http.Header{}
	SetRefusal(header, nil, time.Minute, 0, &values)
	SetRefusal(other, nil, 2*time.Second, 0, &values)
	assert.Equal(t, header.Get("Cache-Control")+" "+header.Get(RetryAfter), "no-store 60", "the first headers")
	assert.Equal(t, other.Get("Cache-Control")+" "+other.Get(RetryAfter), "no-store 2", "the later headers")
}

// TestQuotas_SetHeaders_again keeps the text of earlier headers, which logs may still have, when the memory for values is
// given once more; and shows numbers that are longer than that memory.
func TestQuotas_SetHeaders_again(t *testing.T) {
	for _, settings := range []limiter.Settings{
		{Limit: 100, Window: time.Hour}, {Limit: 7, Window: time.Hour}, {Limit: 1<<52 - 1, Calendar: "day"},
	} {
		settings.Name = "p"
		policy, limit := assert.NoError(limiter.NewPolicy(settings))(t), settings.Limit
		var values QuotaValues
		var q Quotas
		q.Record([]limiter.Check{{Policy: policy, Result: limiter.Result{Remaining: limit - 1, ResetAfter: time.Minute}}}, XRateLimit, time.Unix(1_700_000_000, 0))
		header := http.Header{}
		q.SetHeaders(header, nil, &values, nil)
		other := http.Header{}
		later := Quotas{}
		later.Record([]limiter.Check{{Policy: policy, Result: limiter.Result{Remaining: 1}}}, XRateLimit, time.Unix(1_800_000_000, 0))
		later.SetHeaders(other, nil, &values, nil)
		assert.Equal(t, header.Get(Limit)+" "+header.Get(Remaining)+" "+header.Get(Reset), fmt.Sprint(limit, limit-1, 1_700_000_060), "the first headers")
		assert.Equal(t, other.Get(Remaining)+" "+other.Get(Reset), fmt.Sprint(1, 1_800_000_000), "the later headers")
	}
}
