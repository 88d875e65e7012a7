package routetrace

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// HeaderFilter is which header fields of requests a server drops before its routes: those with "_" or "." in their names, which
// backends by CGI take for "-", but for those that the server expects. Of what it expects it drops the names with "-", and
// fields that come several times. [NewHeaderFilter] makes one.
type HeaderFilter struct{ underscore, dot expectedHeaders }

// NewHeaderFilter returns the filter of a server.
func NewHeaderFilter(server *caddyhttp.Server) HeaderFilter {
	return HeaderFilter{
		underscore: newExpectedHeaders(server.ExpectedUnderscoreHeaders, "_"),
		dot:        newExpectedHeaders(server.ExpectedDotHeaders, "."),
	}
}

// Keeps reports whether a field with a name in its canonical form comes to the routes, if it comes once.
func (f *HeaderFilter) Keeps(name string) bool {
	hasUnderscore, hasDot := strings.Contains(name, "_"), strings.Contains(name, ".")
	switch {
	case hasUnderscore && hasDot:
		return slices.Contains(f.underscore.names, name) || slices.Contains(f.dot.names, name)
	case hasUnderscore:
		return f.underscore.has(name)
	case hasDot:
		return f.dot.has(name)
	}
	return !f.underscore.replaces(name) && !f.dot.replaces(name)
}

// Filter returns a header without the fields that are dropped: the header itself where none is.
func (f *HeaderFilter) Filter(header http.Header) http.Header {
	kept := header
	for name, fields := range header {
		if f.Keeps(name) && (len(fields) < 2 || !strings.ContainsAny(name, "_.")) {
			continue
		}
		if len(kept) == len(header) {
			kept = maps.Clone(header)
		}
		delete(kept, name)
	}
	return kept
}

// expectedHeaders are names that a server expects though they have a separator that it drops, in their canonical form, and
// those with "-" in its place.
type expectedHeaders struct{ names, prefixes, replaced, replacedPrefixes []string }

func newExpectedHeaders(entries []string, separator string) (e expectedHeaders) {
	for _, entry := range entries {
		prefix, isPrefix := strings.CutSuffix(entry, "*")
		name, replaced := http.CanonicalHeaderKey(prefix), http.CanonicalHeaderKey(strings.ReplaceAll(prefix, separator, "-"))
		if isPrefix {
			e.prefixes, e.replacedPrefixes = append(e.prefixes, name), append(e.replacedPrefixes, replaced)
		} else {
			e.names, e.replaced = append(e.names, name), append(e.replaced, replaced)
		}
	}
	return e
}

func (e *expectedHeaders) has(name string) bool {
	return slices.Contains(e.names, name) || hasAnyPrefix(name, e.prefixes)
}

// replaces reports whether a name is one with "-" in place of what is expected.
func (e *expectedHeaders) replaces(name string) bool {
	return slices.Contains(e.replaced, name) || hasAnyPrefix(name, e.replacedPrefixes)
}

func hasAnyPrefix(text string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}
