package routetrace

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// headerWrites are headers of requests that handlers write. A star at an end of a deleted one stands for any text.
type headerWrites struct {
	set, deleted []string
	users        []string // those of set whose values come from a log-in
	unknown      bool     // and others, which the configuration does not tell
	login        bool     // and the placeholders of the authenticated user
}

// has reports whether a read finds what handlers write.
func (h *headerWrites) has(read *earlyRead) bool {
	if read.user {
		return h.login
	}
	return names(h.set, read.name) || names(h.deleted, read.name)
}

// follows reports whether handlers behind a read write what it reads. If the read is unsure, deleting is no writing:
// what a handler in front has written is often kept from the backend.
func (h *headerWrites) follows(read *earlyRead) bool {
	if read.user {
		return h.login
	}
	return names(h.set, read.name) || !read.unsure && names(h.deleted, read.name)
}

// add adds what a further handler writes.
func (h *headerWrites) add(more headerWrites) {
	h.set, h.deleted = slices.Concat(h.set, more.set), slices.Concat(h.deleted, more.deleted)
	h.users = slices.Concat(h.users, more.users)
	h.unknown, h.login = h.unknown || more.unknown, h.login || more.login
}

// writesOf returns what a handler writes, apart from the handlers inside of it.
func writesOf(by *handler) headerWrites {
	h, ok := by.module.(*headers.Handler)
	if !ok || h.Request == nil {
		_, login := by.module.(*caddyauth.Authentication)
		return headerWrites{unknown: !ok && mayWriteHeaders(by), login: login}
	}
	changed := slices.Concat(slices.Collect(maps.Keys(h.Request.Set)), slices.Collect(maps.Keys(h.Request.Add)),
		slices.Collect(maps.Keys(h.Request.Replace)))
	computed := func(name string) bool { return strings.Contains(name, "{") }
	unknown := slices.ContainsFunc(slices.Concat(changed, h.Request.Delete), computed)
	return headerWrites{set: changed, deleted: h.Request.Delete, unknown: unknown, users: usersIn(h.Request)}
}

// usersIn returns the headers that are set to what a log-in says: a field of forward_auth's response, or of the user.
func usersIn(ops *headers.HeaderOps) (names []string) {
	for _, fields := range []http.Header{ops.Set, ops.Add} {
		for name, values := range fields {
			if slices.ContainsFunc(values, func(value string) bool {
				return strings.HasPrefix(value, "{http.reverse_proxy.header.") || strings.HasPrefix(value, "{"+userPrefix)
			}) {
				names = append(names, name)
			}
		}
	}
	return names
}

// names reports whether a header stands among names, of which a star at an end stands for any text.
func names(list []string, header string) bool {
	header = strings.ToLower(header)
	return slices.ContainsFunc(list, func(name string) bool {
		text, open := strings.CutPrefix(strings.ToLower(name), "*")
		text, more := strings.CutSuffix(text, "*")
		switch {
		case name == "*" || open && more:
			return strings.Contains(header, text)
		case open:
			return strings.HasSuffix(header, text)
		case more:
			return strings.HasPrefix(header, text)
		}
		return header == text
	})
}

// mayWriteHeaders reports whether a handler, apart from the handlers inside of it, may write headers of requests
// that its configuration does not tell: those of other authors, logins by providers of other authors, and named routes.
func mayWriteHeaders(h *handler) bool {
	if login, ok := h.module.(*caddyauth.Authentication); ok {
		for _, provider := range login.Providers {
			if isForeign(provider) {
				return true
			}
		}
	}
	return h.Name == "invoke" || isForeign(h.module)
}

// warnOfHeaders warns of headers that limits go by: those that never come, and users of log-ins whose names count in one case.
func (f *flow) warnOfHeaders(s *Subject, place place) {
	for _, name := range s.Placeholders {
		if name, ok := strings.CutPrefix(name, rule.HeaderPrefix); ok {
			f.warnOfDropped(name, place)
		}
	}
	for _, header := range s.Folded {
		if names(f.front.users, header.Name) {
			f.found.add(place, fmt.Sprintf("policy %q: the key goes by the header %s, which a log-in writes, and joins Bob and bob; write raw_key",
				header.Policy, header.Name))
		}
	}
}

// warnOfDropped warns of a header that the server drops, unless a handler in front may write it.
func (f *flow) warnOfDropped(name string, place place) {
	canonical := http.CanonicalHeaderKey(name)
	if f.filter.Keeps(canonical) || f.front.unknown || f.front.has(&earlyRead{name: canonical}) {
		return
	}
	const text = "the limit reads the header %s, which never comes: Caddy drops %s; write %s"
	switch separators := slices.DeleteFunc([]string{"_", "."}, func(c string) bool { return !strings.Contains(name, c) }); {
	case len(separators) == 0:
		f.found.add(place, fmt.Sprintf(text, name, "it where expected_underscore_headers or expected_dot_headers has that name with _ or .",
			"the name that these have"))
	default:
		f.found.add(place, fmt.Sprintf(text, name, "names with "+strings.Join(separators, " and "),
			strings.NewReplacer("_", "-", ".", "-").Replace(name)+", or name it in "+expectedOption(separators)+" of the global option servers"))
	}
}

func expectedOption(separators []string) string {
	if separators[0] == "_" {
		return "expected_underscore_headers"
	}
	return "expected_dot_headers"
}
