package caddytest

import (
	"net/http"
	"strings"
	"testing"
)

// TestJSON_example loads the example of docs/json.md, with each of the stores.
func TestJSON_example(t *testing.T) {
	_, example, _ := strings.Cut(readDocument(t, "docs/json.md"), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	for source, global := range stores(t) {
		t.Run(source, func(t *testing.T) {
			n := start(t, whole("", ""))
			app := strings.TrimSuffix(strings.TrimPrefix(global, "redis_ratelimit {\nredis redis://"), "\ntimeout 10s\n}")
			config := strings.NewReplacer(
				`":8080"`, `"`+strings.TrimPrefix(n.URL, "http://")+`"`,
				"127.0.0.1:6379/0", app, `"100ms"`, `"10s"`,
				"{\n\t\"apps\"", `{"admin": {"listen": "`+strings.TrimPrefix(n.Admin, "http://")+`"}, "apps"`,
			).Replace(example)
			if source == "memory" {
				config = strings.Replace(config, `"redis": {"url": "redis://"}, `, "", 1)
			}
			if a := n.send(t, http.MethodPost, n.Admin+"/load", config, "Content-Type: application/json"); a.status != http.StatusOK {
				t.Fatalf("got %v for\n%s", a, config)
			}
			for left := int64(99); left > 96; left-- {
				if a := n.get(t, "/"); a.status != http.StatusOK || a.body != "Hello." {
					t.Errorf("got %v", a)
				} else {
					checkQuota(t, a, 100, left)
				}
			}
			recipeEnv{node: n}.checkSource(t, source)
		})
	}
}
