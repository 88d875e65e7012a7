package routetrace

import (
	"maps"
	"net/textproto"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
)

// HeaderRead is a header of requests that a handler reads before any handler has written it.
type HeaderRead struct {
	Place  Place
	Header string // in its canonical form

	// Later says that a handler behind the place writes the header.
	Later bool
}

// EarlyReads returns the headers that handlers of the servers' routes read as clients wrote them, in the order
// of the routes. The function returns the headers that a handler reads, in their canonical form.
func EarlyReads(servers map[string]*caddyhttp.Server, reads func(caddyhttp.MiddlewareHandler) []string) (early []HeaderRead) {
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		flow := &headerFlow{reads: reads, written: map[string]bool{}}
		w := walk{server: serverText(name, servers[name]), yield: flow.visit, branch: flow.branch}
		w.routes(servers[name].Routes, nil, false)
		early = append(early, flow.early...)
	}
	return early
}

// headerFlow follows a server's routes in their order.
type headerFlow struct {
	reads   func(caddyhttp.MiddlewareHandler) []string
	written map[string]bool // by the handlers so far; anyHeader stands for those that no one can tell
	early   []HeaderRead
	open    []int // those of early that handlers to come are behind
}

const anyHeader = "*"

// branch begins a route and returns what ends it. Requests that pass a terminal route, or one of a group, do
// not come to the next one.
func (f *headerFlow) branch(route *caddyhttp.Route) (end func()) {
	if !route.Terminal && route.Group == "" {
		return func() {}
	}
	written, open := maps.Clone(f.written), len(f.open)
	return func() { f.written, f.open = written, f.open[:open] }
}

// visit notes what a handler reads and writes.
func (f *headerFlow) visit(handler caddyhttp.MiddlewareHandler, place Place) bool {
	for _, header := range f.reads(handler) {
		if !f.written[header] && !f.written[anyHeader] {
			f.open = append(f.open, len(f.early))
			f.early = append(f.early, HeaderRead{Place: place, Header: header})
		}
	}
	for _, header := range writtenHeaders(handler) {
		f.written[header] = true
		for _, i := range f.open {
			f.early[i].Later = f.early[i].Later || f.early[i].Header == header
		}
	}
	return true
}

// writtenHeaders returns the headers of requests that a handler may write or delete, in their canonical form.
func writtenHeaders(handler caddyhttp.MiddlewareHandler) (names []string) {
	h, ok := handler.(*headers.Handler)
	switch {
	case !ok && mayWriteHeaders(handler):
		return []string{anyHeader}
	case !ok || h.Request == nil:
		return nil
	}
	names = slices.Concat(slices.Collect(maps.Keys(h.Request.Set)), slices.Collect(maps.Keys(h.Request.Add)), slices.Collect(maps.Keys(h.Request.Replace)), h.Request.Delete)
	for i, name := range names {
		if names[i] = textproto.CanonicalMIMEHeaderKey(name); strings.Contains(name, anyHeader) {
			names[i] = anyHeader
		}
	}
	return names
}

// mayWriteHeaders reports whether a handler, apart from the handlers inside of it, may write headers of requests
// that its configuration does not tell: those of other authors, and named routes.
func mayWriteHeaders(handler caddyhttp.MiddlewareHandler) bool {
	if name := factsOf(handler).Name; name == "invoke" || name == "authentication" {
		return true
	}
	author := reflect.Indirect(reflect.ValueOf(handler)).Type().PkgPath()
	return !strings.HasPrefix(author, "github.com/caddyserver/caddy/") && !strings.HasPrefix(author, "github.com/redis-ratelimit/")
}
