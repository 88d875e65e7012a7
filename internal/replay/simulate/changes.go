package simulate

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// unreadable is a value of a key that cannot be read any more; the zero value: no such value was found.
type unreadable struct {
	placeholder string
	err         error
}

// addChanges compares what a rule makes of a request with what it made of one before.
func addChanges(c *replay.Changes, f *rule.Finding, found unreadable, request *http.Request, repl *caddy.Replacer) {
	if f.Refused || f.Status == rule.NotMatched {
		return
	}
	c.Requests++
	if !f.Rule.MatchesUnfolded(request) {
		c.NewlyMet++
		return
	}
	if found.err != nil {
		c.AddUnreadable(rule.ShortNames("{"+found.placeholder+"}"), rule.ReasonLabel(found.err), f.Status == rule.Rejected)
		return
	}
	now := f.Key.String()
	if now == "" || rule.IsAddressKey(f.Key) {
		return
	}
	before := f.Rule.Key.UnfoldedKey(request, repl).String()
	if before == "" || strings.Contains(before, accesslog.Redacted) {
		c.Redacted++
		return
	}
	c.AddKeys(before, now)
}
