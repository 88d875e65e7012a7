package docs

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// recipeRollout sends requests of one client, which is not in the first tenth, and asks about others.
func recipeRollout(t *testing.T, e recipeEnv) {
	for range 70 {
		if a := e.Get(t, "/"); a.Status != http.StatusOK || caddytest.HasQuota(a) {
			t.Fatalf("got %v; want a dry run for this client", a)
		}
	}
	text := e.Send(t, http.MethodGet, e.Admin+"/metrics", "").Body
	if !strings.Contains(text, `decisions_total{decision="dry_run_denied",policy="candidate"`) {
		t.Error("the metrics have no dry_run_denied")
	}
	e.Ratelimit(t, "state", "--policy", "candidate", "--key", "127.0.0.1").Want(t, 0, "no handler limits this key")
	limited := 0
	for i := range 100 {
		if p := e.ExplainFor(t, "/", "", fmt.Sprint("192.0.2.", i)).Policies; len(p) == 1 && !p[0].DryRun {
			limited++
		}
	}
	if limited < 2 || limited > 25 {
		t.Errorf("%d clients of a hundred are limited, want about ten", limited)
	}
}

func recipeUsage(t *testing.T, e recipeEnv) {
	const acme = "X-Api-Key: acme"
	for range 3 {
		e.Get(t, "/v1/things", acme)
	}
	for range 3 {
		a := e.Get(t, "/v1/usage", acme)
		for _, part := range []string{`{"policies":[{"name":"minute","limit":60,"remaining":57,`, `{"name":"day","limit":5000,"remaining":4997,`, `"retry_after":0,"window":86400}]}`} {
			if !strings.Contains(a.Body, part) {
				t.Errorf("got %v; want %s", a, part)
			}
		}
		if a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("got %v; want it not stored", a)
		}
	}
	if a := e.Get(t, "/v1/usage"); a.Status != http.StatusBadRequest {
		t.Errorf("got %v; want a key required", a)
	}
	if a := e.Get(t, "/v1/usage", "X-Api-Key: bolt"); !strings.Contains(a.Body, `"remaining":60,"reset_after":0,`) {
		t.Errorf("got %v", a)
	}
}
