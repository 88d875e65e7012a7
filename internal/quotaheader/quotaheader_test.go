package quotaheader

import (
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
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
			got, fits := appendQuota(nil, c, 0)
			want, err := httpsfv.Marshal(quotaItem(c))
			assert.ErrorIf(t, fits != (err == nil) || fits && string(got) != want, "%+v of %s: got %q, fits %t, want %q, %v", result, p.Settings, got, fits, want, err)
		}
	})
}

// grpcTypes are content types of requests, with those of their refusals; empty: no refusal of gRPC's.
var grpcTypes = map[string]string{
	"application/grpc":                      "application/grpc",
	"application/grpc+proto":                "application/grpc+proto",
	"Application/GRPC+JSON":                 "application/grpc+json",
	"application/grpc; charset=utf-8":       "application/grpc",
	"application/grpc+proto \t;a=\"<b>\"":   "application/grpc+proto",
	"application/grpc+vnd.acme.v1_x-y+json": "application/grpc+vnd.acme.v1_x-y+json",
	"application/grpc-web":                  "application/grpc-web",
	"application/grpc-web+proto":            "application/grpc-web+proto",
	"application/grpc-web-text":             "application/grpc-web-text",
	"application/grpc-web-text+proto":       "application/grpc-web-text+proto",

	"":                                        "",
	"application/json":                        "",
	"application/grp":                         "",
	"application/grpcx":                       "",
	"application/grpc+":                       "",
	"application/grpc-":                       "",
	"application/grpc-webb":                   "",
	"application/grpc-web-":                   "",
	"application/grpc-web-texts+proto":        "",
	"application/grpc-web+":                   "",
	"application/grpc/proto":                  "",
	"application/grpc proto":                  "",
	" application/grpc":                       "",
	"application/grpc, text/html":             "",
	"application/grpc,application/grpc+proto": "",
	"application/grpc+<script>":               "",
	"application/grpc+pro\r\nX-Evil: 1":       "",
	"application/grpc+pro\x00to":              "",
	"application/grpc+\u212aind":              "", // lower case makes it kind
	"application/\u0261rpc":                   "",
	"application/grpc; charset":               "",
	"application/grpc; a=b; a=c":              "",
	"application/grpc; \"":                    "",
	"text/html; application/grpc":             "",
}

func TestGRPCType(t *testing.T) {
	for asked, want := range grpcTypes {
		assert.Equal(t, GRPCType(http.Header{"Content-Type": {asked}}), want, "%q", asked)
	}
	const one = "application/grpc"
	for name, values := range map[string][]string{
		"none": nil, "two": {one, one}, "two kinds": {"text/html", one}, "endless": {one + "+" + strings.Repeat("a", maxGRPCType)},
	} {
		assert.Equal(t, GRPCType(http.Header{"Content-Type": values}), "", "%s", name)
	}
	longest := one + "+" + strings.Repeat("a", maxGRPCType-len(one)-1)
	got := GRPCType(http.Header{"Content-Type": {longest}})
	assert.ErrorIf(t, got != longest, "got %q for the longest type", got)
}

// FuzzGRPCType answers no content type with anything but the harmless beginning of it.
func FuzzGRPCType(f *testing.F) {
	for asked := range grpcTypes {
		f.Add(asked)
	}
	f.Fuzz(func(t *testing.T, asked string) {
		got := GRPCType(http.Header{"Content-Type": {asked}})
		if len(got) > len(asked) || !strings.EqualFold(got, asked[:len(got)]) || strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789/+-._") != "" {
			t.Errorf("%q is answered with %q", asked, got)
		}
	})
}

func TestRefusedCall_Write(t *testing.T) {
	policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "api", Algorithm: limiter.GCRA, Limit: 1, Window: time.Hour}))(t)
	check := &limiter.Check{Policy: policy}
	for name, test := range map[string]struct {
		refusal                 RefusedCall
		status, message, pushed string
	}{
		"soon":     {DeniedCall(check, 1), "8", "rate limit exceeded: policy api, retry in 1 s", "1"},
		"rounded":  {DeniedCall(check, 2000*time.Millisecond+1), "8", "rate limit exceeded: policy api, retry in 3 s", "2001"},
		"longest":  {DeniedCall(check, time.Minute), "8", "rate limit exceeded: policy api, retry in 60 s", "60000"},
		"too long": {DeniedCall(check, time.Minute+1), "8", "rate limit exceeded: policy api, retry in 61 s", "-1"},
		"never":    {DeniedCall(check, limiter.Never), "8", "rate limit exceeded: policy api", "-1"},
		"banned":   {BannedCall(check, 5*time.Second), "8", "banned for too many calls: policy api, retry in 5 s", "5000"},
		"closed":   {UndecidedCall(time.Second), "14", "rate limits are unavailable", "1000"},
		"key":      {CallRefusedBy(400), "3", "a value that rate limits count by is missing", "-1"},
		"early":    {CallRefusedBy(425), "14", "the handshake is not complete", ""},
		"crowded":  {CallRefusedBy(503), "14", "too many requests are held for rate limits", ""},
		"deadline": {CallRefusedBy(504), "4", "the deadline has passed", ""},
		"gone":     {CallRefusedBy(499), "1", "the client has left", ""},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set(grpcPushback, "7")
		test.refusal.Write(w, nil, "application/grpc+proto")
		got := w.Result()
		if got.StatusCode != http.StatusOK || w.Body.Len() > 0 || got.Header.Get("Content-Type") != "application/grpc+proto" || got.Header.Get("Access-Control-Expose-Headers") != "" {
			t.Errorf("%s: got %v", name, got)
		}
		for header, want := range map[string]string{GRPCStatus: test.status, grpcMessage: test.message, grpcPushback: test.pushed} {
			values := got.Header.Values(header)
			assert.ErrorIf(t, strings.Join(values, "|") != want, "%s: %s is %q, want %q", name, header, values, want)
		}
	}
}

func TestText_Write(t *testing.T) {
	refusedBy := func(status int) Text {
		text, found := TextRefusedBy(status)
		assert.ErrorIf(t, !found, "%d has no text", status)
		return text
	}
	for want, text := range map[string]Text{
		"429 Too many requests. Try again in 1 second.":                  DeniedText(429, 1),
		"429 Too many requests. Try again in 6 seconds.":                 DeniedText(429, 5*time.Second+1),
		"403 Too many requests. Try again in 34 days 5 hours.":           DeniedText(403, 2_953_253*time.Second),
		"429 Too many requests.":                                         DeniedText(429, limiter.Never),
		"503 The service is unavailable. Try again in 2 seconds.":        UndecidedText(2 * time.Second),
		"400 The request lacks a value that is required, or repeats it.": refusedBy(400),
		"425 The TLS handshake is not complete. Send the request again.": refusedBy(425),
		"503 Too many requests are waiting. Try again later.":            refusedBy(503),
		"504 The request took too long.":                                 refusedBy(504),
	} {
		w := httptest.NewRecorder()
		for _, name := range ofPages {
			w.Header().Set(name, "5")
		}
		w.Header().Set("Content-Type", "text/html")
		text.Write(w, false)
		assert.Equal(t, strconv.Itoa(w.Code)+" "+w.Body.String(), want, "the answer")
		assert.Equal(t, w.Header(), http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, "the header")
		w = httptest.NewRecorder()
		text.Write(w, true)
		assert.Equal(t, strconv.Itoa(w.Code), want[:3], "the status without a body")
		assert.ErrorIf(t, w.Body.Len() > 0 || len(w.Header()) > 0, "got %v", w)
	}
	_, found := TextRefusedBy(499)
	assert.ErrorIf(t, found, "a client that left has a text")
	longest := len(DeniedText(429, math.MaxInt64).append(nil))
	assert.ErrorIf(t, longest > textLen, "the longest line has %d bytes", longest)
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
			wait := SetRefusal(header, test.wait, test.jitter)
			seen[header.Get(RetryAfter)] = true
			told := assert.NoError(strconv.ParseInt(header.Get(RetryAfter), 10, 64))(t)
			assert.ErrorIf(t, told < test.least || told > test.most, "%v with %v: Retry-After is %d", test.wait, test.jitter, told)
			assert.ErrorIf(t, wait.True < test.wait || wait.True > later(test.wait, test.longer), "%v with %v: in truth %v", test.wait, test.jitter, wait.True)

			policy := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "p", Algorithm: limiter.GCRA, Limit: 1, Window: time.Hour}))(t)
			var q Quotas
			q.Record([]limiter.Check{{Policy: policy, Result: limiter.Result{RetryAfter: test.wait}}}, IETF, time.Now())
			q.Deny(time.Now(), wait)
			q.SetHeaders(header, nil)
			want := min(CeilSeconds(test.wait), told)
			assert.Equal(t, header.Get(Quota), `"p";r=0;t=`+strconv.FormatInt(want, 10), "%v with %v: %s", test.wait, test.jitter, Quota)
		}
		assert.ErrorIf(t, test.most-test.least > 1000 && len(seen) < 25, "%v with %v: Retry-After has %d values of 50", test.wait, test.jitter, len(seen))
	}
}

func TestRefusedCall_exposed(t *testing.T) {
	for exposed, want := range map[string]string{
		"":                     "Grpc-Status, Grpc-Message, Grpc-Retry-Pushback-Ms",
		"*":                    "*",
		"X-Other, grpc-status": "X-Other, grpc-status, Grpc-Message, Grpc-Retry-Pushback-Ms",
	} {
		w := httptest.NewRecorder()
		w.Header().Set("Access-Control-Allow-Origin", "*")
		if exposed != "" {
			w.Header().Set("Access-Control-Expose-Headers", exposed)
		}
		UndecidedCall(time.Second).Write(w, nil, "application/grpc-web")
		assert.Equal(t, w.Header().Get("Access-Control-Expose-Headers"), want, "%q", exposed)
	}
}

func FuzzPercentEncoded(f *testing.F) {
	for _, text := range []string{"", "retry in 5 s", "100 %", "Grüße\r\nX-Evil: 1", "\x00\x7f\xff~ "} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		encoded := percentEncoded(text)
		for _, b := range []byte(encoded) {
			assert.ErrorIf(t, b < ' ' || b > '~', "%q is written %q", text, encoded)
		}
		decoded, err := url.PathUnescape(encoded)
		assert.ErrorIf(t, err != nil || decoded != text, "%q is read as %q, error %v", text, decoded, err)
	})
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
		got, fits := appendPolicy(nil, policy)
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
		header := http.Header{Limit: {"10"}}
		header.Set("Access-Control-Allow-Credentials", test.credentials)
		header.Set("Access-Control-Expose-Headers", test.exposed)
		expose(header, exposable)
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
		wait := SetRefusal(header, result.RetryAfter, time.Second)
		if result.RetryAfter != 0 { // denied
			q.Deny(now, wait)
		}
		q.SetHeaders(header, nil)
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
