package requests

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestDenied_line reads the debug lines of denials by a limit, by a ban, by an override and in a dry run: each has its
// reason and the source of the decision.
func TestDenied_line(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		n := caddytest.Start(t, caddytest.Config(option, `redis_ratelimit /api {
		policy api { key {query.k}; limit 1; window 24h; ban 1h after 2 }
	}
	redis_ratelimit /dry {
		policy dry { key {query.k}; limit 1; window 24h; dry_run }
	}
	respond ok`))
		n.Override(t, http.StatusOK, `{"policy":"api","key":"blocked","block":true}`)
		n.GetTimes(t, 4, "/api?k=greedy")
		n.Get(t, "/api?k=blocked")
		n.GetTimes(t, 2, "/dry?k=greedy")
		lines := n.Log.Lines(func(l caddytest.LogLine) bool {
			return strings.HasPrefix(l.Message, "request ") && strings.HasSuffix(l.Message, " denied")
		})
		wanted := []string{
			`"policy":"api","reason":"limit","source":"` + source + `"`, `"policy":"api","reason":"ban","source":"` + source + `"`, `"policy":"api","reason":"ban"`,
			`"policy":"api","reason":"block","source":"override"`, `"policy":"dry","reason":"limit","source":"` + source + `"`,
		}
		assert.FatalIf(t, len(lines) != len(wanted), "got %v", lines)
		for i, want := range wanted {
			assert.ErrorIf(t, !strings.Contains(lines[i].Text, want) || strings.Contains(lines[i].Text, "greedy"), "line %d is %v, want %s", i, lines[i], want)
		}
	})
}
