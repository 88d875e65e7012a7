package redis

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestACL_bans bans with the rights of decisions alone, and lists and lifts bans with those of operators.
func TestACL_bans(t *testing.T) {
	t.Parallel()
	for mode, start := range map[string]func(t *testing.T) (servers []*redistest.Server, option, rights string){
		"standalone": func(t *testing.T) ([]*redistest.Server, string, string) {
			s := redistest.Start(t)
			return []*redistest.Server{s}, "address " + s.Addr, ""
		},
		"cluster": func(t *testing.T) ([]*redistest.Server, string, string) {
			servers := redistest.StartCluster(t)
			return servers, "mode cluster\naddress " + servers[0].Addr, caddytest.ACLClusterCommands
		},
	} {
		t.Run(mode, func(t *testing.T) {
			servers, option, rights := start(t)
			caddytest.RestrictUser(t, servers, strings.Fields(caddytest.ACLCommands+" "+rights))
			n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\ntimeout 10s\nredis {\n"+option+"\nusername limiter\npassword secret\n}\n}",
				"redis_ratelimit {header.X-Key} 1 24h {\nname api\nban 1h\n}\n"+caddytest.ShowDecision))
			ban := func() {
				for i, want := range []string{"allowed redis", "denied redis"} {
					if a := n.Get(t, "/", "X-Key: bad"); a.Body != want {
						t.Fatalf("request %d: got %v, want %s", i, a, want)
					}
				}
				n.CheckMetric(t, `bans_total{policy="api"}`, 1)
			}
			ban()
			if a := n.Ask(t, http.MethodGet, "bans", ""); a.Status != 503 || !strings.Contains(a.Body, `"complete":false`) || !strings.Contains(a.Body, "NOPERM") {
				t.Errorf("without the right to search: got %v", a)
			}
			for _, body := range []string{`{"policy":"api","key":"bad","unban":true}`, `{"policy":"api","all":true,"unban":true}`} {
				if a := n.Ask(t, http.MethodPost, "override", body); a.Status != 503 || !strings.Contains(a.Body, "NOPERM") {
					t.Errorf("without the right to delete: %s: got %v", body, a)
				}
			}
			caddytest.RestrictUser(t, servers, strings.Fields(caddytest.ACLCommands+" "+rights+" "+caddytest.ACLOperatorCommands))
			n.Ratelimit(t, "bans").Want(t, 0, "bad")
			n.Ratelimit(t, "override", "--policy", "api", "--key", "bad", "--unban").Want(t, 0, "1 ban lifted")
			n.Get(t, "/", "X-Key: bad") // banned again
			n.Ratelimit(t, "override", "--policy", "api", "--all", "--unban").Want(t, 0, "1 ban lifted")
			if refused := caddytest.RefusedByACL(t, servers); len(refused) > 0 {
				t.Errorf("refused are %v", refused)
			}
		})
	}
}

// TestACL_without_overrides has overrides in Redis and a user that may not read them: one line says so, and
// requests are decided as without overrides.
func TestACL_without_overrides(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	config := func(user string) string {
		return caddytest.Config("redis_ratelimit {\ntimeout 10s\nredis redis://"+user+server.Addr+"\n}", caddytest.LimitedSite)
	}
	knows := caddytest.Start(t, config(""))
	if a := knows.Ask(t, http.MethodPost, "override", `{"policy":"api","key":"bad","block":true}`); a.Status != http.StatusOK {
		t.Fatalf("got %v", a)
	}
	caddytest.RestrictUser(t, []*redistest.Server{server}, strings.Fields(caddytest.ACLCommands))
	n := caddytest.Start(t, config("limiter:secret@"))
	redistest.WaitFor(t, "some polls", func() error {
		if polls := len(caddytest.RefusedByACL(t, []*redistest.Server{server})); polls == 0 {
			return errors.New("no poll was refused")
		}
		if a := n.Get(t, "/", fmt.Sprint("X-Key: other", len(n.Log.String()))); !strings.HasSuffix(a.Body, " redis") {
			t.Errorf("got %v", a)
		}
		log := server.Client(t).Do(t.Context(), "acl", "log").Val()
		if entries, _ := log.([]any); !strings.Contains(fmt.Sprint(entries), "count:3") {
			return fmt.Errorf("got %v", entries)
		}
		return nil
	})
	lines := n.Log.Lines(func(l caddytest.LogLine) bool { return strings.HasPrefix(l.Message, "overrides cannot be read") })
	if len(lines) != 1 || n.Metric(t, "breaker_open") != 0 {
		t.Errorf("%d lines, and the breaker is %v; want one and a closed one", len(lines), n.Metric(t, "breaker_open"))
	}
	if a := n.Get(t, "/", "X-Key: bad"); a.Body != "allowed redis" {
		t.Errorf("got %v", a)
	}
}
