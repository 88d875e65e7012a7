package accesslog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Warnings tells an operator, in a sentence each, what may make decisions on the log different from
// those on the traffic. They are fit for a terminal. Of headers and user_id, which are redacted in
// almost any log, only those are told that are used: names as in Redacted, from which keys are made.
func (s *Summary) Warnings(used ...string) []string {
	var all []string
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for i := range s.Files {
		if f := &s.Files[i]; f.Err != nil {
			warn("%s: %s; what was read before counts", Printable(f.Name, 200), Printable(f.Err.Error(), 200))
		}
	}
	total := s.Total()
	if total.Malformed > 0 {
		warn("%d of %d lines are malformed", total.Malformed, total.Lines)
	}
	for _, m := range s.Malformed {
		warn("%s: %s: %s", m.Line, m.Reason, m.Text)
	}
	if s.Entries == 0 {
		warn("there is no request in the log")
	}
	if s.Late > 0 {
		warn("%d requests were further out of order than the window is long, by up to %s: they count at a later time",
			s.Late, s.LatestBy.Round(time.Millisecond))
	}
	for i := range s.Files {
		if f := &s.Files[i]; f.GuessedDurations {
			warn("%s: durations are taken for milliseconds and may be nanoseconds; the configuration that wrote the log would tell its duration_format",
				Printable(f.Name, 200))
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
			Printable(s.ClientWord, 60))
	}
	if s.MaskedClients {
		warn("all addresses end in zeros, as if masked: clients with similar addresses count as one")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Redacted)) {
		if name != clientIP && !slices.ContainsFunc(used, func(u string) bool { return strings.EqualFold(u, name) }) {
			continue
		}
		warn("%s is redacted in %d requests: by it as a key they all count as one",
			Printable(name, 60), s.Redacted[name])
	}
	return all
}
