package docs

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

const minutely = 1.0 / 60 // of a limit, refilled each second

func recipeTiers(t *testing.T, e recipeEnv) {
	for key, limit := range map[string]int64{"key-of-acme": 600, "key-of-bolt": 120} {
		caddytest.CheckQuota(t, e.Get(t, "/", "X-Api-Key: "+key), limit, limit-1)
	}
	e.GetTimes(t, 5, "/")
	e.spend(t, 15, 20*minutely, "/", "X-Api-Key: made-up")
	caddytest.CheckQuota(t, e.Get(t, "/", "X-Api-Key: key-of-acme"), 600, 598)
	for range 150 {
		e.Get(t, "/", "X-Api-Key: key-of-partner").WantFree(t)
	}
	e.Get(t, "/", "X-Api-Key: key-of-late").Want(t, http.StatusTooManyRequests, caddytest.Any, "Retry-After:", "X-Ratelimit-Limit: 0", "X-Ratelimit-Remaining: 0") // refused for good
}

func recipeClaim(t *testing.T, e recipeEnv) {
	for left := int64(999); left > 997; left-- {
		caddytest.CheckQuota(t, e.Get(t, "/", "X-Tenant: acme"), 1000, left)
	}
	caddytest.CheckQuota(t, e.Get(t, "/", "X-Tenant: bolt"), 1000, 999)
	e.Get(t, "/").Want(t, http.StatusBadRequest, caddytest.Any) // a token without the claim
}

func recipeRouteAndSite(t *testing.T, e recipeEnv) {
	passed, refusal := e.spend(t, 10, 10*minutely, "/search")
	caddytest.CheckQuota(t, refusal, 10, 0)
	e.Get(t, "/search")
	a := e.Get(t, "/")
	if left := remaining(t, a, 100); left != 99-passed && left != 100-passed { // units drain with time
		t.Errorf("got %v; want the %d searches and this counted, and no denial", a, passed)
	}
}

func recipeBurst(t *testing.T, e recipeEnv) {
	passed, refusal := e.spend(t, 20, 0.5, "/messages")
	caddytest.CheckQuota(t, refusal, 20, 0)
	items := caddytest.CheckItemNames(t, refusal, "RateLimit", "burst", "day")
	r, _ := items[1].Params.Get("r")
	if left, ok := r.(int64); !ok || left < int64(1000-passed) {
		t.Errorf("got %v; want the day to have %d left", refusal, 1000-passed)
	}
	wait := retryAfter(t, refusal)
	assert.ErrorIf(t, wait > 2, "got %v; want one message back in 2 seconds", refusal)
}

func recipeBots(t *testing.T, e recipeEnv) {
	e.GetTimes(t, 5, "/", "User-Agent: MySpider") // and one who says Googlebot at a private address
	e.spend(t, 25, 30*minutely, "/", "User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1)")
	caddytest.CheckQuota(t, e.Get(t, "/", "User-Agent: "), 30, 29)
	for range 40 {
		e.Get(t, "/", "User-Agent: Mozilla/5.0 (X11; Linux x86_64)").WantFree(t)
	}
	e.Get(t, "/robots.txt", "User-Agent: Googlebot/2.1").WantFree(t)
}

func recipeWeakBackend(t *testing.T, e recipeEnv) {
	begin := time.Now()
	passed := e.queue(t, "/")
	arrivals := e.backend.seen()
	assert.FatalIf(t, len(arrivals) != passed, "%d requests reached the backend, %d passed", len(arrivals), passed)
	for i, at := range arrivals {
		soonest := time.Duration(i-1) * 100 * time.Millisecond
		assert.ErrorIf(t, at.Sub(begin) < soonest, "request %d reached the backend after %v, want %v or more", i+1, at.Sub(begin), soonest)
	}
	recipeSlowBackend(t, e)
}

// queue sends 30 requests at once to a queue of 20 that passes ten a second, and again where a busy machine sent them
// so slowly that the queue was never full. It returns how many passed: one at once, those in the queue, and those that
// came late enough.
func (e recipeEnv) queue(t *testing.T, path string) (passed int) {
	t.Helper()
	begin, slowest, sent := time.Now(), time.Duration(0), 0
	for sent == passed && sent < 3000 {
		for _, a := range e.Crowd(t, 30, path) {
			sent++
			if a.Status == http.StatusOK {
				passed++
				slowest = max(slowest, a.Took)
				continue
			}
			caddytest.CheckRefusal(t, a, http.StatusServiceUnavailable)
		}
	}
	const interval = 100 * time.Millisecond
	took := time.Since(begin)
	assert.ErrorIf(t, passed < 21 || sent == passed || took < time.Duration(passed-3)*interval, "%d of %d passed in %v, want 21, one each %v, and others refused", passed, sent, took, interval)
	assert.ErrorIf(t, slowest < 1500*time.Millisecond, "the slowest answer took %v, want about 2s", slowest)
	return passed
}

func recipeDryRun(t *testing.T, e recipeEnv) {
	for range 70 {
		e.Get(t, "/").WantFree(t)
	}
	text := e.Send(t, http.MethodGet, e.Admin+"/metrics", "").Body
	for _, decision := range []string{"dry_run_allowed", "dry_run_denied"} {
		assert.ErrorIf(t, !strings.Contains(text, `decisions_total{decision="`+decision+`",policy="candidate"`), "the metrics have no %s", decision)
	}
	assert.Retry(t, "the access log names the policy", func() (again bool, seen any) {
		return len(e.Log.Lines(func(l caddytest.LogLine) bool { return strings.Contains(l.Text, `"ratelimit_dry_run":"candidate"`) })) == 0, "the log does not name it"
	})
}

func recipeCDN(t *testing.T, e recipeEnv) {
	for _, test := range []struct {
		forwarded, client string
		left              int64
	}{
		{"203.0.113.9", "203.0.113.9", 99},
		{"198.51.100.1, 203.0.113.9", "203.0.113.9", 98},
		{"198.51.100.1", "198.51.100.1", 99},
		{"2001:db8::1", "2001:db8::1", 99},
		{"2001:db8::2", "2001:db8::2", 98},
		{"2001:db8:0:1::1", "2001:db8:0:1::1", 99},
	} {
		caddytest.CheckQuota(t, e.Get(t, "/", "X-Forwarded-For: "+test.forwarded).Want(t, 0, "Hello, "+test.client+"."), 100, test.left)
	}
	e.Get(t, "/", "X-Forwarded-For: 192.0.2.10").WantFree(t)
}

func recipeMove(t *testing.T, e recipeEnv) {
	_, refusal := e.spend(t, 10, 0, "/api/")
	waits := map[int]bool{}
	for range 20 {
		waits[retryAfter(t, e.Get(t, "/api/"))] = true
	}
	wait := retryAfter(t, refusal)
	assert.ErrorIf(t, refusal.Body != "Zone api is full." || wait < 30 || wait > 71 || len(waits) < 3, "got %v and waits of %v; want the name of the zone, and to wait for a minute and up to 10s more", refusal, waits)
	left := remaining(t, e.Get(t, "/").Want(t, http.StatusOK, caddytest.Any), 1000)
	assert.ErrorIf(t, left < 980, "%d are left; want the policy of the whole site", left)
}

func recipeWords(t *testing.T, e recipeEnv) {
	e.spend(t, 21, 10, "/api/")
	e.queue(t, "/pages/")
}

// remaining returns the remaining units of a quota with that limit.
func remaining(t *testing.T, a caddytest.Response, capacity int) int {
	t.Helper()
	left, err := strconv.Atoi(a.Header.Get("X-Ratelimit-Remaining"))
	assert.FatalIf(t, err != nil || a.Header.Get("X-Ratelimit-Limit") != strconv.Itoa(capacity), "got %v; want a limit of %d", a, capacity)
	return left
}

func retryAfter(t *testing.T, a caddytest.Response) int {
	t.Helper()
	seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
	assert.FatalIf(t, err != nil, "got %v; want Retry-After", a)
	return seconds
}

// recipeShed fills the backend by exports, then by browsing, then by checkouts. Units are refilled meanwhile,
// so that more pass. Each look at what remains takes a unit.
func recipeShed(t *testing.T, e recipeEnv) {
	for _, class := range []struct {
		path, reason string
		atLeast      int
	}{{"/export/1", "reserve", 25}, {"/", "reserve", 14}, {"/checkout/1", "limit", 9}} {
		passed := 0
		a := caddytest.Response{Status: http.StatusOK}
		for a.Status == http.StatusOK && passed < 5000 { // several at once, to be faster than the refill
			for _, answer := range e.Crowd(t, 5, class.path) {
				if answer.Status == http.StatusOK {
					passed++
				} else {
					a = answer
				}
			}
		}
		assert.ErrorIf(t, passed < class.atLeast, "%s: %d requests passed, want at least %d", class.path, passed, class.atLeast)
		caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
		reason := a.Header.Get("X-Shed")
		assert.ErrorIf(t, reason != class.reason, "%s: the reason is %q, want %q", class.path, reason, class.reason)
		if class.reason != "reserve" {
			continue
		}
		left, err := strconv.Atoi(e.Get(t, "/checkout/1").Header.Get("X-Ratelimit-Remaining"))
		assert.ErrorIf(t, err != nil || left < 9, "%s is refused, and %d units remain for checkouts", class.path, left)
	}
}
