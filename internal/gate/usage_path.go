package gate

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// UsagePath is the path at which a handler answers with a client's quotas. It matches as Caddy's path
// matcher does. The zero value matches nothing.
type UsagePath struct{ matcher caddyhttp.MatchPath }

// ParseUsagePath reads the option usage; empty: no path.
func ParseUsagePath(text string) (UsagePath, error) {
	if text == "" {
		return UsagePath{}, nil
	}
	if !strings.HasPrefix(text, "/") || strings.ContainsAny(text, "*?#[]{}\\") || strings.TrimSpace(text) != text {
		return UsagePath{}, fmt.Errorf("usage %s: use one path that begins with / and has no wildcard, placeholder or query, "+
			"such as /usage", text)
	}
	p := UsagePath{matcher: caddyhttp.MatchPath{text}}
	if err := p.matcher.Provision(caddy.Context{}); err != nil {
		return UsagePath{}, err
	}
	if !p.isPossible(text) {
		return UsagePath{}, fmt.Errorf("usage %s: no request has this path; write it without /./ and /../, and a percent sign as %%25", text)
	}
	return p, nil
}

// isPossible reports whether any request has the path, which is the one that asks for it: cleaning a path twice is
// cleaning it once.
func (p UsagePath) isPossible(text string) bool {
	sent := strings.ReplaceAll((&url.URL{Path: text}).EscapedPath(), "%25", "%") // a % of the option is one of the request
	target, err := url.ParseRequestURI(sent)
	if err != nil {
		return false
	}
	ctx := context.WithValue(context.Background(), caddy.ReplacerCtxKey, caddy.NewReplacer())
	return p.matches((&http.Request{Method: http.MethodGet, URL: target}).WithContext(ctx))
}

// matches reports whether a request asks for its client's quotas.
func (p UsagePath) matches(r *http.Request) bool {
	return len(p.matcher) > 0 && (r.Method == http.MethodGet || r.Method == http.MethodHead) && p.matcher.Match(r)
}
