package rule

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// UsagePath is the path at which a handler answers with a client's quotas. It matches as Caddy's path
// matcher does. The zero value matches nothing.
type UsagePath struct{ matcher caddyhttp.MatchPath }

// ParseUsagePath reads the option usage; empty: none.
func ParseUsagePath(text string) (UsagePath, error) {
	if text == "" {
		return UsagePath{}, nil
	}
	if !strings.HasPrefix(text, "/") || strings.ContainsAny(text, "*?#[]{}\\") || strings.TrimSpace(text) != text {
		return UsagePath{}, fmt.Errorf("usage %s: use one path that begins with / and has no wildcard, placeholder or query, such as /usage", text)
	}
	p := UsagePath{matcher: caddyhttp.MatchPath{text}}
	return p, p.matcher.Provision(caddy.Context{})
}

// Matches reports whether a request asks for its client's quotas.
func (p UsagePath) Matches(r *http.Request) bool {
	return len(p.matcher) > 0 && (r.Method == http.MethodGet || r.Method == http.MethodHead) && p.matcher.Match(r)
}
