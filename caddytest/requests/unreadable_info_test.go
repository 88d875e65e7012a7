package requests

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// infos returns the lines of a node's log with a text that are no warnings.
func infos(n *caddytest.Node, text string) []caddytest.LogLine {
	return n.Log.Lines(func(l caddytest.LogLine) bool { return l.Level == "info" && strings.Contains(l.Message, text) })
}

// TestUnreadable_info has values that version 1.0 counted as they stood: the first of a policy is told, without the value.
func TestUnreadable_info(t *testing.T) {
	t.Parallel()
	const site = "redis_ratelimit /a {header.Authorization} 9 1h {\nname credential\n}\nredis_ratelimit /a2 {header.Authorization} 9 1h {\nname credential\n}\n" +
		"redis_ratelimit /b {cookie.session} 9 1h {\nname session\non_empty_key skip\n}\nrespond ok"
	n := caddytest.Start(t, caddytest.Config("", site))
	told := func() (lines []string) {
		for _, line := range infos(n, "which version 1.0 counted as it stood") {
			lines = append(lines, line.Text)
		}
		return lines
	}
	n.Get(t, "/a", "Authorization: Bearer abc")
	n.Get(t, "/a", "Authorization: Bearer abc", "Authorization: Bearer abd") // which 1.0 did not read either
	n.Get(t, "/b", "Cookie: other=x")
	assert.ErrorIf(t, len(told()) > 0, "%v is told of values that count, are missing or come twice", told())
	for range 2 {
		n.Get(t, "/a", "Authorization: Bearer hush;1")
		n.Get(t, "/a2", "Authorization: Bearer hush;2")
		n.Get(t, "/b", `Cookie: session="hu\sh"`)
	}
	lines := strings.Join(told(), "\n")
	assert.ErrorIf(t, len(told()) != 2 || strings.Contains(lines, "hu"), "told %s", lines)
	for _, want := range []string{`"policy":"credential","placeholder":"{header.Authorization}","reason":"credential"`, `"policy":"session"`, `"reason":"cookie_byte"`} {
		assert.ErrorIf(t, !strings.Contains(lines, want), "%s lacks %s", lines, want)
	}
}

// TestFreshCookie_info has a backend that sets its session anew in each answer, as Laravel does, and one that keeps it.
func TestFreshCookie_info(t *testing.T) {
	t.Parallel()
	answers := 0
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answers++; r.URL.Path == "/laravel" {
			http.SetCookie(w, &http.Cookie{Name: "laravel_session", Value: fmt.Sprint("s", answers), HttpOnly: true})
		}
	}))
	t.Cleanup(backend.Close)
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit /laravel {cookie.laravel_session} 999 1h {\nname fresh\n}\n"+
		"redis_ratelimit /kept {cookie.laravel_session} 999 1h {\nname kept\n}\nreverse_proxy "+strings.TrimPrefix(backend.URL, "http://")))
	n.GetTimes(t, 120, "/kept", "Cookie: laravel_session=s0")
	n.GetTimes(t, 99, "/laravel", "Cookie: laravel_session=s0")
	const text = "set it anew, so that each request has a fresh quota"
	assert.ErrorIf(t, len(infos(n, text)) > 0, "told before the 100th request: %v", infos(n, text))
	n.GetTimes(t, 30, "/laravel", "Cookie: laravel_session=s0")
	got := infos(n, text)
	assert.ErrorIf(t, len(got) != 1 || !strings.Contains(got[0].Text, `"policy":"fresh","cookie":"laravel_session"`), "told %v", got)
}
