package requests

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestTemplates_includes has pages that include others by requests of their own, which are no client's.
func TestTemplates_includes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"page.html": `page {{httpInclude "/part.html"}}`, "part.html": `part {{httpInclude "/leaf.html"}}`, "leaf.html": "leaf",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := caddytest.Start(t, caddytest.Config("", "root "+dir+"\nredis_ratelimit {\nkey {client_ip}\nlimit 3\nwindow 24h\n}\ntemplates\nfile_server"))
	for left := int64(2); left >= 0; left-- {
		a := n.Get(t, "/page.html")
		caddytest.CheckQuota(t, a, 3, left)
		if a.Status != http.StatusOK || a.Body != "page part leaf" {
			t.Errorf("got %v; want the page with its parts", a)
		}
	}
	for _, path := range []string{"/page.html", "/leaf.html"} {
		caddytest.CheckRefusal(t, n.Get(t, path, "Caddy-Templates-Include: 1"), http.StatusTooManyRequests)
	}
}
