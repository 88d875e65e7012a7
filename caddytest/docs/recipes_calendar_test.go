package docs

import (
	"strings"
	"testing"
)

func recipeMonth(t *testing.T, e recipeEnv) {
	const acme = "X-Api-Key: acme"
	e.Get(t, "/v1/search", acme)
	e.Get(t, "/v1/export", acme)
	a := e.Get(t, "/v1/budget", acme)
	for _, part := range []string{`{"policies":[{"name":"budget","limit":10000,"remaining":9899,`, `"retry_after":0,"window":"month"}]}`} {
		if !strings.Contains(a.Body, part) {
			t.Errorf("got %v; want %s", a, part)
		}
	}
	if headers := e.Get(t, "/v1/search", acme).Header; headers.Get("X-RateLimit-Limit") != "10000" || headers.Get("X-RateLimit-Remaining") != "9898" {
		t.Errorf("got %v", headers)
	}
}
