package accesslog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// Warnings returns sentences about why decisions on the log may differ from those on the traffic. Unread and
// late lines are not among them, because the summary has their numbers. Headers and user_id are redacted in
// almost any log, so only those that keys use are reported, by their names in Redacted. The sentences are safe
// on a terminal.
func (s *Summary) Warnings(used ...string) []string {
	var all []string
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if s.Zoneless > 0 {
		warn("%s with a time without a known zone: it is taken for UTC", display.Counted(s.Zoneless, "request"))
	}
	if s.NoClient > 0 {
		warn("%s without a client: they count as one client", display.Counted(s.NoClient, "request"))
	}
	if s.PeerClients > 0 {
		warn("%s without client_ip: the peer of the connection counts as the client, also if it is a proxy", display.Counted(s.PeerClients, "request"))
	}
	if s.LastForwarded > 0 {
		warn("%s without the peer of the connection in the line: the last address of X-Forwarded-For counts as the client",
			display.Counted(s.LastForwarded, "request"))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Redacted)) {
		if name != clientIP && !slices.ContainsFunc(used, func(u string) bool { return strings.EqualFold(u, name) }) {
			continue
		}
		warn("%s is redacted in %s: with a key of it they all count as one",
			display.EscapeShort(name, 60), display.Counted(s.Redacted[name], "request"))
	}
	return all
}
