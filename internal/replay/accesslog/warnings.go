package accesslog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"
)

// Warnings tells an operator, in a sentence each, what may make decisions on the log different from
// those on the traffic, beside what was not read or came late: that stands in the summary itself. They
// are fit for a terminal. Of headers and user_id, which are redacted in almost any log, only those are
// told that are used: names as in Redacted, from which keys are made.
func (s *Summary) Warnings(used ...string) []string {
	var all []string
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for i := range s.Files {
		if f := &s.Files[i]; f.GuessedDurations {
			warn("%s: durations are taken for milliseconds and may be nanoseconds; the configuration that wrote the log would tell its duration_format",
				escape.Short(f.Name, 200))
		}
	}
	if s.Zoneless > 0 {
		warn("%d requests have a time without a known zone: it is taken for UTC", s.Zoneless)
	}
	if s.NoClient > 0 {
		warn("%d requests have no client: they count as one", s.NoClient)
	}
	if s.PeerClients > 0 {
		warn("%d requests tell no client_ip: the peer of the connection counts as the client, which is a proxy where there is one", s.PeerClients)
	}
	if s.ClientWord != "" {
		warn("all requests have the client %s, which is no address: if it stands for many clients, they count as one",
			escape.Short(s.ClientWord, 60))
	}
	if s.MaskedClients {
		warn("all addresses end in zeros, as if masked: clients with similar addresses count as one")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Redacted)) {
		if name != clientIP && !slices.ContainsFunc(used, func(u string) bool { return strings.EqualFold(u, name) }) {
			continue
		}
		warn("%s is redacted in %d requests: by it as a key they all count as one",
			escape.Short(name, 60), s.Redacted[name])
	}
	return all
}
