package routetrace

import (
	"iter"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Tracer takes requests through trees. It may be used again once [Tracer.Run] has returned.
type Tracer struct {
	// OnLimiter is called for every handler with a limiter that the request meets, and reports whether the request goes
	// on. Required.
	OnLimiter func(l Limiting, r *http.Request) (goesOn bool, err error)

	// Skipped are the IDs of the handlers that the last request passed although only a real one can.
	Skipped []string

	// Answered is the handler that answers the last request; nil: none that is known to does.
	Answered caddyhttp.MiddlewareHandler

	request *http.Request
	writer  DiscardWriter
	groups  []string // of routes that have matched
	passed  bool     // the handler that mutates has called the next one
}

// Run takes a request through the routes of a server and reports whether it ended there.
func (t *Tracer) Run(tree *Tree, r *http.Request) (ended bool, err error) {
	t.request, t.groups, t.Skipped, t.Answered = r, t.groups[:0], nil, nil
	t.writer = DiscardWriter{} // handlers add to the header
	return t.run(&tree.lists[0])
}

// run takes the request through routes and reports whether it ended there.
func (t *Tracer) run(l *list) (ended bool, err error) {
	for i := range l.routes {
		r := &l.routes[i]
		if r.group != "" && slices.Contains(t.groups, r.group) {
			continue
		}
		matches, err := r.matchers.AnyMatchWithError(t.request)
		if err != nil {
			return true, err
		}
		if !matches {
			continue
		}
		if r.group != "" {
			t.groups = append(t.groups, r.group)
		}
		for j := range r.handlers {
			if ended, err := t.meet(&r.handlers[j]); ended || err != nil {
				return true, err
			}
		}
		if r.terminal {
			return true, nil
		}
	}
	return false, nil
}

// meet takes the request through one handler and reports whether it ended there.
func (t *Tracer) meet(h *handler) (ended bool, err error) {
	switch h.kind {
	case limits:
		goesOn, err := t.OnLimiter(h.limiting, t.request)
		return !goesOn, err
	case Mutates:
		t.passed = false
		err := h.module.ServeHTTP(&t.writer, t.request, t)
		return !t.passed, err
	case Answers:
		t.Answered = h.module
		return true, nil
	case nests:
		if next := h.next(); next != nil {
			return t.run(next)
		}
		return true, nil // an error of invoke
	case unknown:
		t.Skipped = AppendNew(t.Skipped, h.moduleID())
	case PassesThrough:
	}
	return false, nil
}

// ServeHTTP records that a handler called the next one. It implements [caddyhttp.Handler].
func (t *Tracer) ServeHTTP(_ http.ResponseWriter, r *http.Request) error {
	t.passed, t.request = true, r
	return nil
}

// DiscardWriter drops a response.
type DiscardWriter struct{ header http.Header }

// Header implements [http.ResponseWriter].
func (d *DiscardWriter) Header() http.Header {
	if d.header == nil {
		d.header = http.Header{}
	}
	return d.header
}

// Write implements [http.ResponseWriter].
func (*DiscardWriter) Write(data []byte) (int, error) { return len(data), nil }

// WriteHeader implements [http.ResponseWriter].
func (*DiscardWriter) WriteHeader(int) {}

// Limiters returns the handlers with a limiter that requests to the tree's server may meet, in the order of its routes. One of
// a named route comes as often as handlers invoke it.
func (t *Tree) Limiters() iter.Seq[Limiting] {
	return func(yield func(Limiting) bool) { eachLimiter(t.lists[0].routes, yield) }
}

// eachLimiter calls a function for the handlers with a limiter that requests to routes may meet, until it is false, and
// reports whether it never was.
func eachLimiter(routes []route, yield func(Limiting) bool) bool {
	for i := range routes {
		for j := range routes[i].handlers {
			h := &routes[i].handlers[j]
			if h.kind == limits && !yield(h.limiting) {
				return false
			}
			if next := h.next(); next != nil && !eachLimiter(next.routes, yield) {
				return false
			}
		}
	}
	return true
}

// hasLimiter reports whether requests to the tree's server may meet a limiter.
func (t *Tree) hasLimiter() bool {
	for range t.Limiters() {
		return true
	}
	return false
}

// LimitersOfWholeSites returns the handlers with a limiter that no matcher keeps a request of their site from, each once: around
// them are matchers of hosts alone, subroutes, and named routes that are invoked so.
func LimitersOfWholeSites(trees map[string]*Tree) (found []Limiting) {
	for _, tree := range trees {
		found = append(found, limitersOfWholeSites(&tree.lists[0], nil)...)
	}
	return found
}

// limitersOfWholeSites adds those of a list to the ones that were found.
func limitersOfWholeSites(l *list, found []Limiting) []Limiting {
	for i := range l.routes {
		r := &l.routes[i]
		if r.group != "" || !hasHostsAlone(r.matchers) {
			continue
		}
		for j := range r.handlers {
			h := &r.handlers[j]
			if h.kind == limits && !slices.Contains(found, h.limiting) {
				found = append(found, h.limiting)
			}
			if next := h.next(); next != nil {
				found = limitersOfWholeSites(next, found)
			}
		}
	}
	return found
}

// hasHostsAlone reports whether matchers ask for nothing but the host.
func hasHostsAlone(sets caddyhttp.MatcherSets) bool {
	for _, set := range sets {
		for _, matcher := range set {
			if _, ok := matcher.(*caddyhttp.MatchHost); !ok {
				return false
			}
		}
	}
	return true
}
