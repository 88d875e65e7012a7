package redis

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestACL_overrides sets, reads, loses and removes an override with the rights that docs/redis.md lists.
func TestACL_overrides(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	text := caddytest.Config("redis_ratelimit {\ntimeout 10s\nredis redis://limiter:secret@"+server.Addr+"\n}", caddytest.LimitedSite)
	needed := strings.Fields(caddytest.ACLOverrideCommands)
	all := slices.Concat(needed, strings.Fields(caddytest.ACLCommands))
	redis := server.Client(t)
	caddytest.CheckExactRights(t, []*redistest.Server{server}, all, needed, nil, func(t *testing.T) error {
		n := caddytest.Start(t, text)
		defer n.Stop(t)
		a := n.Ask(t, http.MethodPost, "override", `{"policy":"api","key":"secretkey","block":true}`)
		if a.Status != http.StatusOK {
			if a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, "NOPERM") && !strings.Contains(a.Body, "can't run this") && !strings.Contains(a.Body, "ACL failure") {
				t.Errorf("got %v; want 503 with the reason", a)
			}
			return fmt.Errorf("got %v", a)
		}
		if a := n.Get(t, "/", "X-Key: good"); a.DeniedByRedis() || !strings.HasSuffix(a.Body, " redis") {
			return fmt.Errorf("got %v", a)
		}
		if err := redis.Del(t.Context(), "rl:{%!overrides}:version", "rl:{good}:api:c1d").Err(); err != nil {
			return err
		}
		for _, question := range []struct{ method, path, body string }{
			{http.MethodGet, "overrides", ""}, {http.MethodPost, "override", `{"policy":"api","key":"secretkey","remove":true}`},
		} {
			if a := n.Ask(t, question.method, question.path, question.body); a.Status != http.StatusOK {
				return fmt.Errorf("got %v", a)
			}
		}
		if strings.Contains(n.Log.String(), "secretkey") {
			t.Errorf("a key is in the log: %s", n.Log)
		}
		return nil
	})
}
