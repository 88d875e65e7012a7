package redisratelimit

import (
	"net/http"
	"slices"
)

// walk is one request on its way through a course.
type walk struct {
	request *http.Request
	writer  nowhereWriter
	groups  []string // of routes that have matched

	// meet decides what becomes of the request at a handler of this module: whether it goes on.
	meet func(h *Handler, r *http.Request) (goesOn bool, err error)

	passed  bool     // the handler that changes has called the next one
	leftOut []string // the handlers that the request came past and that were left out
}

// run takes the request through routes and tells whether it has ended there.
func (w *walk) run(routes []reducedRoute) (ended bool, err error) {
	for i := range routes {
		route := &routes[i]
		if route.group != "" && slices.Contains(w.groups, route.group) {
			continue
		}
		matches, err := route.matchers.AnyMatchWithError(w.request)
		if err != nil {
			return true, err
		}
		if !matches {
			continue
		}
		if route.group != "" {
			w.groups = append(w.groups, route.group)
		}
		for j := range route.steps {
			if ended, err := w.take(&route.steps[j]); ended || err != nil {
				return true, err
			}
		}
		if route.terminal {
			return true, nil
		}
	}
	return false, nil
}

// take takes the request through one handler and tells whether it has ended there.
func (w *walk) take(s *step) (ended bool, err error) {
	switch {
	case s.limiter != nil:
		goesOn, err := w.meet(s.limiter, w.request)
		return !goesOn, err
	case s.changes != nil:
		w.passed = false
		err := s.changes.ServeHTTP(&w.writer, w.request, w)
		return !w.passed, err
	case s.ends:
		return true, nil
	case s.leftOut != "":
		if !slices.Contains(w.leftOut, s.leftOut) {
			w.leftOut = append(w.leftOut, s.leftOut)
		}
		return false, nil
	}
	return w.run(s.inside)
}

// ServeHTTP notes that a handler has called the next one. It implements [caddyhttp.Handler].
func (w *walk) ServeHTTP(_ http.ResponseWriter, r *http.Request) error {
	w.passed, w.request = true, r
	return nil
}

// nowhereWriter takes a response that nobody gets.
type nowhereWriter struct{ header http.Header }

// Header implements [http.ResponseWriter].
func (w *nowhereWriter) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

// Write implements [http.ResponseWriter].
func (*nowhereWriter) Write(data []byte) (int, error) { return len(data), nil }

// WriteHeader implements [http.ResponseWriter].
func (*nowhereWriter) WriteHeader(int) {}
