package requests

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestSnippets_arguments(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, global, source string) {
		path := filepath.Join(t.TempDir(), "limited.caddy")
		redistest.Must(t, os.WriteFile(path, []byte("redis_ratelimit {args[0]} same {args[1]} 24h {\n\tname file\n}\n"), 0o600))
		n := caddytest.Start(t, caddytest.ConfigWithSites(global, `(limited) {
			redis_ratelimit {args[0]} { name {args[1]}; key same; limit {args[2]}; window 24h; {block} }
		}
		:{$PORT} {
			import limited /search search 3
			import limited /login login 1 { status 420 }
			import `+path+` /file 2
		`+caddytest.ShowDecision+"\n}\n"))
		for route, want := range map[string]struct {
			limit  int64
			status int
		}{"/search": {3, 429}, "/login": {1, 420}, "/file": {2, 429}} {
			for left := want.limit - 1; left >= 0; left-- {
				caddytest.CheckQuota(t, caddytest.CheckAdmitted(t, n.Get(t, route), source), want.limit, left)
			}
			caddytest.CheckRefusal(t, n.Get(t, route), want.status)
		}
		n.Get(t, "/none").WantFree(t)
	})
}

// sharing is a Caddyfile of two sites. The second has a limit and an option of its own.
func sharing(global, limit, option string) string {
	return caddytest.ConfigWithSites(global, `http://127.0.0.1:{$PORT} {
		redis_ratelimit same 10 24h { name shared }`+caddytest.ShowDecision+`
	}
	http://localhost:{$PORT} {
		redis_ratelimit same `+limit+` 24h { name shared; `+option+` }`+caddytest.ShowDecision+`
	}
	`)
}

func TestSites_sharedPolicy(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, global, source string) {
		n := caddytest.Start(t, sharing(global, "10", "weight 3"))
		for _, test := range []struct {
			url  string
			left int64
		}{{n.URL, 9}, {n.LocalhostURL(), 6}, {n.LocalhostURL(), 3}, {n.URL, 2}} {
			a := n.Send(t, http.MethodGet, test.url, "")
			caddytest.CheckAdmitted(t, a, source)
			caddytest.CheckQuota(t, a, 10, test.left)
		}
		caddytest.CheckRefusal(t, n.Send(t, http.MethodGet, n.LocalhostURL(), ""), http.StatusTooManyRequests)
		caddytest.CheckAdmitted(t, n.Get(t, "/"), source) // whose weight is 1
		for _, test := range []struct{ limit, option, complaint string }{
			{"11", "", "limit 11"},
			{"10", "algorithm fixed_window", "fixed_window"},
			{"10", "ipv6_prefix 48", "48"},
		} {
			a := n.Load(t, caddytest.WithPorts(n, sharing(global, test.limit, test.option)))
			for _, part := range []string{`policy \"shared\"`, "two meanings", test.complaint} {
				a.Want(t, http.StatusBadRequest, "*"+part+"*")
			}
		}
		caddytest.CheckQuota(t, n.Get(t, "/"), 10, 0)
	})
}

// everything is a body with each placeholder.
const everything = `"{http.redis_ratelimit.decision}|{http.redis_ratelimit.policy}|{http.redis_ratelimit.limit}|{http.redis_ratelimit.remaining}|{http.redis_ratelimit.retry_after}|{http.redis_ratelimit.reset_after}|{http.redis_ratelimit.source}|{http.redis_ratelimit.dry_run}"`

// twoPolicies are a policy in dry run and an enforced one with 2 requests a day.
const twoPolicies = `redis_ratelimit {
	policy pretend { key {path}; limit 1; window 24h; dry_run }
	policy real { key {path}; limit 2; window 24h; algorithm sliding_window_log }
	{$MORE}
}
`

// checkEverything checks the body of [everything] for the second or a later request.
func checkEverything(t *testing.T, a caddytest.Response, decision, source string) {
	t.Helper()
	got := strings.Split(a.Body, "|")
	redistest.FatalIf(t, len(got) != 8, "got %v; want eight values", a)
	for i, want := range map[int]string{0: decision, 1: "real", 2: "2", 3: "0", 7: "pretend"} {
		if got[i] != want {
			t.Errorf("value %d is %q, want %q: %v", i, got[i], want, a)
		}
	}
	if got[6] != source && (got[6] != "deny_cache" || source != "redis" || decision != "denied") {
		t.Errorf("it was decided by %s, want %s", got[6], source)
	}
	retry, err := strconv.ParseFloat(got[4], 64)
	if want := decision == "denied"; err != nil || retry > 86400 || (retry > 86000) != want || (retry > 0) != want {
		t.Errorf("retry_after is %s", got[4])
	}
	if reset, err := strconv.ParseFloat(got[5], 64); err != nil || reset < 86000 || reset > 86400 {
		t.Errorf("reset_after is %s", got[5])
	}
	caddytest.CheckQuota(t, a, 2, 0)
	if decision == "denied" {
		caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
	}
}

// TestPlaceholders_handlers reads the placeholders in the next handler, in handle_errors and in intercept.
func TestPlaceholders_handlers(t *testing.T) {
	t.Parallel()
	sites := map[string]string{
		"handle_errors": twoPolicies + "respond " + everything + "\nhandle_errors {\nrespond " + everything + "\n}",
		"intercept inside": `handle_errors { respond ` + everything + ` }
		` + twoPolicies + `
		intercept {
			@teapot status 418
			handle_response @teapot { respond ` + everything + ` 200 }
		}
		respond 418`,
		"intercept around": `route {
			intercept {
				@known status 418 429
				handle_response @known { respond ` + everything + ` {http.intercept.status_code} }
			}
			` + strings.Replace(twoPolicies, "{$MORE}", "problem_details", 1) + `
			respond 418
		}`,
	}
	for name, site := range sites {
		for source, global := range caddytest.Stores(t) {
			t.Run(name+" "+source, func(t *testing.T) {
				t.Parallel()
				n := caddytest.Start(t, caddytest.Config(global, site))
				n.Get(t, "/")
				checkEverything(t, n.Get(t, "/"), "allowed", source)
				for range 3 {
					checkEverything(t, n.Get(t, "/"), "denied", source)
				}
			})
		}
	}
}
