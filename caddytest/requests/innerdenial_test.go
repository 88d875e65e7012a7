package requests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// errorRoutes may surround a handler that denies: error routes of the server, and of its subroute.
var errorRoutes = map[string]struct{ server, subroute, options string }{
	"none":            {},
	"unrelated":       {server: unrelated},
	"matching":        {server: matching},
	"subroute":        {subroute: matching},
	"both":            {server: unrelated, subroute: matching},
	"problem_details": {options: `, "problem_details": true`},
	"with_unrelated":  {server: unrelated, options: `, "problem_details": true`},
}

const (
	unrelated = `, "errors": {"routes": [{"match": [{"expression": "{http.error.status_code} == 404"}], "handle": [{"handler": "static_response", "body": "lost"}]}]}`
	matching  = `, "errors": {"routes": [{"handle": [{"handler": "static_response", "body": "refused"}]}]}`
)

// nested returns a site whose outer handler counts by the response of an inner one, which refuses.
type nested struct {
	// addr is another one for each configuration: the server of the last one may yet accept a connection.
	addr string

	redis, name, countIf, options, refusing, subroute, server string
}

func (s *nested) config(n *caddytest.Node) string {
	outer := fmt.Sprintf(`{"handler": "redis_ratelimit", "policies": [{"name": %q, "key": "same", "limit": 9, "window": "24h", "algorithm": "gcra", "count_if": {"status_code": [%s]}%s}]}`, s.name, s.countIf, s.options)
	inner := `{"handler": "subroute", "routes": [{"handle": [` + s.refusing + `]}]` + s.subroute + `}`
	return `{"admin": {"listen": "` + strings.TrimPrefix(n.Admin, "http://") + `"}, "apps": {` + s.redis + `"http": {"grace_period": "1s", "servers": {"s": {"listen": ["` +
		s.addr + `"], "automatic_https": {"disable": true}, "routes": [{"handle": [` + outer + `, ` + inner + `]}]` + s.server + `}}}}}`
}

// used returns how many units of the outer policy three refused requests have used.
func (s *nested) used(t *testing.T, n *caddytest.Node, status int, headers ...string) int64 {
	t.Helper()
	s.addr = redistest.FreeAddr(t)
	a := n.Send(t, http.MethodPost, n.Admin+"/load", s.config(n), "Content-Type: application/json")
	if a.Status != http.StatusOK {
		t.Fatalf("got %v", a)
	}
	for range 3 {
		if a := n.Send(t, http.MethodGet, "http://"+s.addr, "", headers...); a.Status != status {
			t.Errorf("got %v; want status %d", a, status)
		}
	}
	a = n.Ask(t, http.MethodPost, "state", `{"policy":"`+s.name+`","key":"same"}`)
	return 9 - caddytest.ParseJSON[struct{ Remaining int64 }](t, a).Remaining
}

// TestCountIf_innerRefusal has each error route around each refusal. This module writes the refusal itself
// or returns an error.
func TestCountIf_innerRefusal(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "respond old"))
	away := `"redis_ratelimit": {"redis": {"addresses": ["` + redistest.FreeAddr(t) + `"]}}, `
	for refusal, test := range map[string]struct {
		status       int
		redis, inner string
	}{
		"denied_429":  {429, "", `"status": 429, "policies": [{"name": "inner", "key": "same", "limit": 1, "window": "24h", "weight_from": "{http.vars.heavy}"}]`},
		"denied_503":  {503, "", `"status": 503, "policies": [{"name": "inner", "key": "same", "limit": 1, "window": "24h", "weight_from": "{http.vars.heavy}"}]`},
		"closed_503":  {503, away, `"fail_mode": "closed", "policies": [{"name": "inner", "key": "same", "limit": 1, "window": "24h"}]`},
		"rejects_400": {400, "", `"on_empty_key": "reject", "policies": [{"name": "inner", "key": "{http.vars.none}", "limit": 1, "window": "24h"}]`},
	} {
		for routes, around := range errorRoutes {
			for countIf, options := range map[string]string{"429": "", "401": "", "2": "", "5": `, "dry_run": true`} {
				name := strings.Join([]string{"p", refusal, routes, countIf}, "-")
				t.Run(name, func(t *testing.T) {
					s := nested{
						redis: test.redis, name: name, countIf: countIf, options: options, server: around.server, subroute: around.subroute,
						refusing: `{"handler": "vars", "heavy": "2"}, {"handler": "redis_ratelimit", ` + test.inner + around.options + `}`,
					}
					want := int64(0)
					if strings.HasPrefix(fmt.Sprint(test.status), countIf) {
						want = 3
					}
					if got := s.used(t, n, test.status); got != want {
						t.Errorf("%d units are used, want %d", got, want)
					}
				})
			}
		}
	}
}

// TestCountIf_innerError has another module's handler that ends the request with an error.
func TestCountIf_innerError(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "respond old"))
	for status, want := range map[int]int64{401: 3, 404: 0, 500: 3} { // 5xx count
		for _, routes := range []string{"none", "unrelated", "matching"} {
			name := fmt.Sprintf("e-%d-%s", status, routes)
			t.Run(name, func(t *testing.T) {
				s := nested{name: name, countIf: "401", server: errorRoutes[routes].server, refusing: fmt.Sprintf(`{"handler": "error", "status_code": %d}`, status)}
				if got := s.used(t, n, status); got != want {
					t.Errorf("%d units are used, want %d", got, want)
				}
			})
		}
	}
}
