package routetrace

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
)

// HeaderRead is a header of requests that a handler reads before any handler has certainly written it.
type HeaderRead struct {
	Place  Place
	Header string // in its canonical form

	// Unsure says that a handler in front of the place may have written the header: its configuration does not tell.
	Unsure bool

	// Later says that a handler behind the place writes the header. Where Unsure holds, one that deletes the header
	// does not count: what a handler in front has written is often kept from the backend.
	Later bool
}

// EarlyReads returns the headers that handlers of the servers' routes may read as clients wrote them, in the order
// of the routes. The function returns the headers that a handler reads, in their canonical form.
func EarlyReads(servers map[string]*caddyhttp.Server, reads func(caddyhttp.MiddlewareHandler) []string) (early []HeaderRead) {
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		flow := &headerFlow{reads: reads}
		w := walk{server: serverText(name, servers[name]), yield: flow.visit, branch: flow.branch}
		w.routes(servers[name].Routes, nil, false)
		early = append(early, flow.early...)
	}
	return early
}

// headerFlow follows a server's routes in their order.
type headerFlow struct {
	reads func(caddyhttp.MiddlewareHandler) []string
	front headerWrites // of the handlers so far
	early []HeaderRead
	open  []int // those of early that handlers to come are behind
}

// branch begins a route and returns what ends it. Requests that pass a terminal route, or one of a group, do
// not come to the next one.
func (f *headerFlow) branch(route *caddyhttp.Route) (end func()) {
	if !route.Terminal && route.Group == "" {
		return func() {}
	}
	front, open := f.front, len(f.open)
	return func() { f.front, f.open = front, f.open[:open] }
}

// visit notes what a handler reads and writes.
func (f *headerFlow) visit(handler caddyhttp.MiddlewareHandler, place Place) bool {
	for _, header := range f.reads(handler) {
		if !names(f.front.set, header) && !names(f.front.deleted, header) {
			f.open = append(f.open, len(f.early))
			f.early = append(f.early, HeaderRead{Place: place, Header: header, Unsure: f.front.unknown})
		}
	}
	writes := writesOf(handler)
	for _, i := range f.open {
		read := &f.early[i]
		read.Later = read.Later || names(writes.set, read.Header) || !read.Unsure && names(writes.deleted, read.Header)
	}
	f.front.set = slices.Concat(f.front.set, writes.set)
	f.front.deleted = slices.Concat(f.front.deleted, writes.deleted)
	f.front.unknown = f.front.unknown || writes.unknown
	return true
}

// headerWrites are headers of requests that handlers write. A star at an end of a deleted one stands for any text.
type headerWrites struct {
	set, deleted []string
	unknown      bool // and others, which the configuration does not tell
}

// writesOf returns what a handler writes, apart from the handlers inside of it.
func writesOf(handler caddyhttp.MiddlewareHandler) headerWrites {
	h, ok := handler.(*headers.Handler)
	if !ok || h.Request == nil {
		return headerWrites{unknown: !ok && mayWriteHeaders(handler)}
	}
	changed := slices.Concat(slices.Collect(maps.Keys(h.Request.Set)), slices.Collect(maps.Keys(h.Request.Add)), slices.Collect(maps.Keys(h.Request.Replace)))
	computed := func(name string) bool { return strings.Contains(name, "{") }
	return headerWrites{set: changed, deleted: h.Request.Delete, unknown: slices.ContainsFunc(slices.Concat(changed, h.Request.Delete), computed)}
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
func mayWriteHeaders(handler caddyhttp.MiddlewareHandler) bool {
	if login, ok := handler.(*caddyauth.Authentication); ok {
		for _, provider := range login.Providers {
			if isForeign(provider) {
				return true
			}
		}
	}
	return factsOf(handler).Name == "invoke" || isForeign(handler)
}

// isForeign reports whether a module is neither Caddy's nor of this project.
func isForeign(module any) bool {
	author := reflect.Indirect(reflect.ValueOf(module)).Type().PkgPath()
	return !strings.HasPrefix(author, "github.com/caddyserver/caddy/") && !strings.HasPrefix(author, "github.com/redis-ratelimit/")
}
