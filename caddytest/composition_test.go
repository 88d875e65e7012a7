package caddytest

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// whole returns a Caddyfile of global options, snippets and sites on the ports that [start] sets.
func whole(global, rest string) string {
	options, _, _ := strings.Cut(config(global, ""), "\n\n:{$PORT}")
	return options + "\n\n" + rest
}

// elsewhere returns the URL of the site under its other name.
func (n *node) elsewhere() string {
	return strings.Replace(n.URL, "127.0.0.1", "localhost", 1)
}

func TestSnippets_with_arguments_limit_each_route_on_its_own(t *testing.T) {
	for source, global := range stores(t) {
		t.Run(source, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "limited.caddy")
			if err := os.WriteFile(path, []byte("redis_ratelimit {args[0]} same {args[1]} 24h {\n\tname file\n}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			n := start(t, whole(global, `(limited) {
				redis_ratelimit {args[0]} {
					name {args[1]}
					key same
					limit {args[2]}
					window 24h
					{block}
				}
			}
			:{$PORT} {
				import limited /search search 3
				import limited /login login 1 {
					status 420
				}
				import `+path+` /file 2
			`+showDecision+"\n}\n"))
			for route, want := range map[string]struct{ limit, status int }{
				"/search": {3, 429}, "/login": {1, 420}, "/file": {2, 429}, "/none": {},
			} {
				for i := range want.limit {
					a := n.get(t, route)
					checkAdmitted(t, a, source)
					checkQuota(t, a, int64(want.limit), int64(want.limit-i-1))
				}
				a := n.get(t, route)
				if want.limit == 0 {
					if a.status != http.StatusOK || hasQuota(a) {
						t.Errorf("%s: got %v; want it left alone", route, a)
					}
					continue
				}
				checkRefusal(t, a, want.status)
			}
		})
	}
}

// sharing is a Caddyfile of two sites. The second has a limit and an option of its own.
func sharing(global, limit, option string) string {
	return whole(global, `http://127.0.0.1:{$PORT} {
		redis_ratelimit same 10 24h {
			name shared
		}`+showDecision+`
	}
	http://localhost:{$PORT} {
		redis_ratelimit same `+limit+` 24h {
			name shared
			`+option+`
		}`+showDecision+`
	}
	`)
}

func TestSites_share_a_policy_by_its_name(t *testing.T) {
	for source, global := range stores(t) {
		t.Run(source, func(t *testing.T) {
			n := start(t, sharing(global, "10", "weight 3"))
			for _, test := range []struct {
				url  string
				left int64
			}{{n.URL, 9}, {n.elsewhere(), 6}, {n.elsewhere(), 3}, {n.URL, 2}} {
				a := n.send(t, http.MethodGet, test.url, "")
				checkAdmitted(t, a, source)
				checkQuota(t, a, 10, test.left)
			}
			checkRefusal(t, n.send(t, http.MethodGet, n.elsewhere(), ""), http.StatusTooManyRequests)
			checkAdmitted(t, n.get(t, "/"), source) // whose weight is 1
			for _, test := range []struct{ limit, option, complaint string }{
				{"11", "", "limit 11"},
				{"10", "algorithm fixed_window", "fixed_window"},
				{"10", "ipv6_prefix 48", "48"},
			} {
				a := n.load(t, portsOf(n, sharing(global, test.limit, test.option)))
				for _, part := range []string{`policy \"shared\"`, "two meanings", test.complaint} {
					if a.status != http.StatusBadRequest || !strings.Contains(a.body, part) {
						t.Errorf("limit %s, %q: got %v; want it refused with %s", test.limit, test.option, a, part)
					}
				}
			}
			checkQuota(t, n.get(t, "/"), 10, 0)
		})
	}
}

// portsOf replaces the ports in a text by a node's.
func portsOf(n *node, text string) string {
	_, port, _ := strings.Cut(strings.TrimPrefix(n.URL, "http://"), ":")
	return strings.NewReplacer("{$PORT}", port, "{$ADMIN}", strings.TrimPrefix(n.Admin, "http://")).Replace(text)
}

// everything is a body with each placeholder.
const everything = `"{http.redis_ratelimit.decision}|{http.redis_ratelimit.policy}|{http.redis_ratelimit.limit}|{http.redis_ratelimit.remaining}|{http.redis_ratelimit.retry_after}|{http.redis_ratelimit.reset_after}|{http.redis_ratelimit.source}|{http.redis_ratelimit.dry_run}"`

// twoPolicies are a policy in dry run and an enforced one with 2 requests a day.
const twoPolicies = `redis_ratelimit {
	policy pretend {
		key {path}
		limit 1
		window 24h
		dry_run
	}
	policy real {
		key {path}
		limit 2
		window 24h
		algorithm sliding_window_log
	}
	{$MORE}
}
`

// checkEverything checks the body of [everything] for the second or a later request.
func checkEverything(t *testing.T, a answer, decision, source string) {
	t.Helper()
	got := strings.Split(a.body, "|")
	if len(got) != 8 {
		t.Fatalf("got %v; want eight values", a)
	}
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
	checkQuota(t, a, 2, 0)
	if decision == "denied" {
		checkRefusal(t, a, http.StatusTooManyRequests)
	}
}

// TestPlaceholders_handlers reads the placeholders in the next handler, in handle_errors and in intercept.
func TestPlaceholders_handlers(t *testing.T) {
	sites := map[string]string{
		"handle_errors": twoPolicies + "respond " + everything + "\nhandle_errors {\nrespond " + everything + "\n}",
		"intercept inside": `handle_errors {
			respond ` + everything + `
		}
		` + twoPolicies + `
		intercept {
			@teapot status 418
			handle_response @teapot {
				respond ` + everything + ` 200
			}
		}
		respond 418`,
		"intercept around": `route {
			intercept {
				@known status 418 429
				handle_response @known {
					respond ` + everything + ` {http.intercept.status_code}
				}
			}
			` + strings.Replace(twoPolicies, "{$MORE}", "problem_details", 1) + `
			respond 418
		}`,
	}
	for name, site := range sites {
		for source, global := range stores(t) {
			t.Run(name+" "+source, func(t *testing.T) {
				n := start(t, config(global, site))
				n.get(t, "/")
				checkEverything(t, n.get(t, "/"), "allowed", source)
				for range 3 {
					checkEverything(t, n.get(t, "/"), "denied", source)
				}
			})
		}
	}
}
