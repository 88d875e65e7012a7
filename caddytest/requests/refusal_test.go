package requests

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestHeaders_ietf reads the headers with a parser of structured fields.
func TestHeaders_ietf(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", `redis_ratelimit {
		policy burst {
			key same
			limit 10
			window 1s
			algorithm token_bucket
			burst 2
		}
		policy sustained {
			key same
			limit 100
			window 1m
			algorithm fixed_window
		}
		headers x_ratelimit ietf
	}
	redis_ratelimit /hidden same 5 1h {
		name hidden
		headers off
	}
	respond ok`))
	a := n.Get(t, "/hidden")
	checkItems(t, a, "RateLimit-Policy", `"burst";q=2, "sustained";q=100;w=60`)
	items := caddytest.CheckItemNames(t, a, "RateLimit", "burst", "sustained")
	if r, _ := items[1].Params.Get("r"); r != int64(99) {
		t.Errorf("got %v", a)
	}
	value, _ := items[1].Params.Get("t")
	if seconds, ok := value.(int64); !ok || seconds < 1 || seconds > 60 {
		t.Errorf("got %v", a)
	}
	caddytest.CheckQuota(t, a, 2, 1)
	for range 1000 { // ten units a second flow back
		if a = n.Get(t, "/"); a.Status == http.StatusTooManyRequests {
			break
		}
	}
	caddytest.CheckItemNames(t, a, "RateLimit", "burst", "sustained")
	caddytest.CheckQuota(t, a, 2, 0)
}

func checkItems(t *testing.T, a caddytest.Response, header, want string) {
	t.Helper()
	if got := a.Header.Values(header); !slices.Equal(got, []string{want}) {
		t.Errorf("%s is %q, want %q", header, got, want)
	}
}

func TestHeaders_off(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit same 1 24h {\nheaders off\n}\nrespond ok"))
	if a := n.Get(t, "/"); caddytest.HasQuota(a) {
		t.Errorf("got %v", a)
	}
	a := n.Get(t, "/")
	caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
	if caddytest.HasQuota(a) || a.Header.Get("RateLimit") != "" {
		t.Errorf("got %v", a)
	}
}

// TestReset_ofDenials compares the time with that of Retry-After. The whole quotas come back after days.
func TestReset_ofDenials(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", `route {
	redis_ratelimit same 24 24h {
		name outer
		algorithm token_bucket
		burst 48
	}
	redis_ratelimit /jitter jitter 1 24h {
		name jitter
		retry_jitter 24h
	}
	redis_ratelimit /hidden hidden 1 24h {
		name hidden
		headers off
	}
	redis_ratelimit /inner inner 1 24h {
		name inner
	}
	redis_ratelimit /zero {
		name zero
		limit {query.limit} 1
		window 24h
	}
	respond ok
}
handle_errors {
	respond sorry
}`))
	for _, path := range []string{"/jitter", "/hidden", "/inner"} {
		passed := n.Get(t, path)
		if passed.Status != http.StatusOK || resetOf(t, passed) < 0 || passed.Header.Get("Retry-After") != "" {
			t.Errorf("%s: got %v", path, passed)
		}
		denied := n.Get(t, path)
		caddytest.CheckRefusal(t, denied, http.StatusTooManyRequests)
		wait, _ := strconv.ParseFloat(denied.Header.Get("Retry-After"), 64)
		// It was decided between the request and its answer.
		if left := resetOf(t, denied); left-denied.Took.Seconds() > wait+1 || left < wait-3 {
			t.Errorf("%s: Retry-After is %v, X-RateLimit-Reset in %v s", path, wait, left)
		}
	}
	if a := n.Get(t, "/zero?limit=0"); a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After")+a.Header.Get("X-Ratelimit-Reset") != "" {
		t.Errorf("got %v; want neither time for what never passes", a)
	}
}

// resetOf returns the seconds from the request until X-RateLimit-Reset.
func resetOf(t *testing.T, a caddytest.Response) float64 {
	t.Helper()
	reset, err := strconv.ParseInt(a.Header.Get("X-Ratelimit-Reset"), 10, 64)
	if err != nil {
		t.Errorf("X-RateLimit-Reset is %q", a.Header.Values("X-Ratelimit-Reset"))
	}
	return time.Unix(reset, 0).Sub(a.Sent).Seconds()
}

func TestHeaders_exposed(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", `header /open Access-Control-Allow-Origin *
	header /open Access-Control-Expose-Headers X-Other
	redis_ratelimit {path} 1 24h
	respond ok`))
	if a := n.Get(t, "/closed"); a.Header.Get("Access-Control-Expose-Headers") != "" {
		t.Errorf("got %v", a)
	}
	const fields = "X-Other, X-Ratelimit-Limit, X-Ratelimit-Remaining, X-Ratelimit-Reset"
	checkItems(t, n.Get(t, "/open"), "Access-Control-Expose-Headers", fields)
	checkItems(t, n.Get(t, "/open"), "Access-Control-Expose-Headers", fields+", Retry-After")
}

func TestHeaders_exposed_redisDown(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+redistest.FreeAddr(t)+"\nfail_mode closed\n}",
		"header Access-Control-Allow-Origin *\nredis_ratelimit same 1 24h\nrespond ok"))
	a := n.Get(t, "/")
	caddytest.CheckRefusal(t, a, http.StatusServiceUnavailable)
	checkItems(t, a, "Access-Control-Expose-Headers", "Retry-After")
}

func TestRetryJitter(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit same 1 24h {\nalgorithm fixed_window\nretry_jitter 1h\n}\nrespond ok"))
	n.Get(t, "/")
	seen := map[string]bool{}
	for range 10 {
		a := n.Get(t, "/")
		caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
		seen[a.Header.Get("Retry-After")] = true
		if seconds, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || seconds > 25*60*60+1 {
			t.Errorf("got %v", a)
		}
	}
	if len(seen) < 5 {
		t.Errorf("10 clients get %v", seen)
	}
}

func TestProblemDetails(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+redistest.FreeAddr(t)+"\n}", `redis_ratelimit {
		policy tight {
			key same
			limit 1
			window 24h
		}
		policy wide {
			key same
			limit 100
			window 24h
		}
		problem_details
	}
	redis_ratelimit /closed other 1 24h {
		fail_mode closed
		problem_details
	}
	respond ok
	handle_errors {
		respond "error route"
	}`))
	n.Get(t, "/")
	for _, test := range []struct {
		path, kind string
		status     int
		policies   []string
	}{{"/", "quota-exceeded", 429, []string{"tight"}}, {"/closed", "temporary-reduced-capacity", 503, nil}} {
		if test.path == "/closed" {
			n = caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis redis://"+redistest.FreeAddr(t)+"\n}", "redis_ratelimit other 1 24h {\nfail_mode closed\nproblem_details\n}\nrespond ok"))
		}
		a := n.Get(t, test.path)
		caddytest.CheckRefusal(t, a, test.status)
		var body struct {
			Type     string
			Title    string
			Status   int
			Policies []string `json:"violated-policies"`
		}
		if err := json.Unmarshal([]byte(a.Body), &body); err != nil {
			t.Fatalf("got %v: %v", a, err)
		}
		if body.Type != "https://iana.org/assignments/http-problem-types#"+test.kind || body.Title == "" || body.Status != test.status ||
			!slices.Equal(body.Policies, test.policies) || a.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("got %v", a)
		}
	}
}
