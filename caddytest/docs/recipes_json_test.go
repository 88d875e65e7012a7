package docs

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestJSON_example loads the example of docs/json.md, with each of the stores.
func TestJSON_example(t *testing.T) {
	t.Parallel()
	_, example, _ := strings.Cut(caddytest.ReadFile(t, "docs/json.md"), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	for source, global := range caddytest.Stores(t) {
		t.Run(source, func(t *testing.T) {
			began := time.Now()
			n := caddytest.Start(t, caddytest.ConfigWithSites("", ""))
			app, _, _ := strings.Cut(strings.TrimPrefix(global, "redis_ratelimit {\nredis redis://"), "\n")
			config := strings.NewReplacer(
				`":8080"`, `"`+strings.TrimPrefix(n.URL, "http://")+`"`,
				"127.0.0.1:6379/0", app, `"100ms"`, `"10s"`,
				"{\n\t\"apps\"", `{"admin": {"listen": "`+strings.TrimPrefix(n.Admin, "http://")+`"}, "apps"`,
			).Replace(example)
			if source == "memory" {
				config = strings.Replace(config, `"redis": {"url": "redis://"}, `, "", 1)
			}
			if a := n.Send(t, http.MethodPost, n.Admin+"/load", config, "Content-Type: application/json"); a.Status != http.StatusOK {
				t.Fatalf("got %v for\n%s", a, config)
			}
			awayFromMinute(time.Since(began))
			for left := int64(99); left > 96; left-- {
				if a := n.Get(t, "/"); a.Status != http.StatusOK || a.Body != "Hello." {
					t.Errorf("got %v", a)
				} else {
					caddytest.CheckQuota(t, a, 100, left)
				}
			}
			recipeEnv{Node: n}.checkSource(t, source)
		})
	}
}
