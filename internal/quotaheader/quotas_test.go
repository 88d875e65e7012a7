package quotaheader

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

func TestPolicyText(t *testing.T) {
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
		policy, err := limiter.NewPolicy(limiter.Settings{Name: "p", Algorithm: "gcra", Limit: test.limit, Burst: test.burst, Window: test.window})
		redistest.Must(t, err)
		if got := textsOf(policy).item; got != `"p";`+test.want {
			t.Errorf("limit %d, burst %d, window %v: got %s, want %s", test.limit, test.burst, test.window, got, test.want)
		}
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
		header := http.Header{Limit: {"10"}}
		header.Set("Access-Control-Allow-Credentials", test.credentials)
		header.Set("Access-Control-Expose-Headers", test.exposed)
		expose(header, http.Header{"Origin": {"https://app.example.com"}}, exposable)
		got := header.Get("Access-Control-Expose-Headers")
		redistest.ErrorIf(t, got != test.want, "with credentials %q and %q: got %q, want %q", test.credentials, test.exposed, got, test.want)
	}
}

// FuzzHeaders shows any result that a store may give.
func FuzzHeaders(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0))
	f.Add(int64(99), int64(1), int64(1e18))
	f.Add(int64(5), int64(-1), int64(60e9))
	f.Fuzz(func(t *testing.T, remaining, retryAfter, resetAfter int64) {
		policy, err := limiter.NewPolicy(limiter.Settings{Name: "p", Algorithm: "gcra", Limit: 100, Window: time.Minute})
		redistest.Must(t, err)
		result := limiter.Result{Remaining: max(0, remaining%101), RetryAfter: max(limiter.Never, time.Duration(retryAfter)/2), ResetAfter: max(0, time.Duration(resetAfter)) / 2}
		var q Quotas
		now := time.Now()
		q.Record([]limiter.Check{{Policy: policy, Key: limiter.EncodeKey("k"), Result: result}}, Formats{XRateLimit: true, IETF: true}, now)
		header := http.Header{}
		wait := SetRefusal(header, result.RetryAfter, 0)
		if result.RetryAfter != 0 { // denied
			q.Deny(now, wait)
		}
		q.SetHeaders(header, nil)
		for name, least := range map[string]int64{Limit: 100, Remaining: 0, Reset: now.Unix(), "Retry-After": 1} {
			value := header.Get(name)
			if (name == "Retry-After" || name == Reset) && result.RetryAfter == limiter.Never {
				redistest.ErrorIf(t, value != "", "%s %q of what can never pass", name, value)
				continue
			}
			n, err := strconv.ParseInt(value, 10, 64)
			redistest.ErrorIf(t, err != nil || n < least, "%s is %q for %+v, want a whole number from %d", name, value, result, least)
		}
	})
}
