package redisratelimit

import (
	"net/http"
	"slices"
)

// routeTracer is one request on its way through a course.
type routeTracer struct {
	request *http.Request
	writer  discardWriter
	groups  []string // of routes that have matched

	// onLimiter decides what becomes of the request at a handler of this module: whether it goes on.
	onLimiter func(h *Handler, r *http.Request) (goesOn bool, err error)

	passed  bool     // the handler that changes has called the next one
	skipped []string // the handlers that the request came past and that were left out
}

// run takes the request through routes and tells whether it has ended there.
func (w *routeTracer) run(routes []reducedRoute) (ended bool, err error) {
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
func (w *routeTracer) take(s *step) (ended bool, err error) {
	switch {
	case s.limiter != nil:
		goesOn, err := w.onLimiter(s.limiter, w.request)
		return !goesOn, err
	case s.changes != nil:
		w.passed = false
		err := s.changes.ServeHTTP(&w.writer, w.request, w)
		return !w.passed, err
	case s.ends:
		return true, nil
	case s.skipped != "":
		if !slices.Contains(w.skipped, s.skipped) {
			w.skipped = append(w.skipped, s.skipped)
		}
		return false, nil
	}
	return w.run(s.inside)
}

// ServeHTTP notes that a handler has called the next one. It implements [caddyhttp.Handler].
func (w *routeTracer) ServeHTTP(_ http.ResponseWriter, r *http.Request) error {
	w.passed, w.request = true, r
	return nil
}

// discardWriter takes a response that nobody gets.
type discardWriter struct{ header http.Header }

// Header implements [http.ResponseWriter].
func (d *discardWriter) Header() http.Header {
	if d.header == nil {
		d.header = http.Header{}
	}
	return d.header
}

// Write implements [http.ResponseWriter].
func (*discardWriter) Write(data []byte) (int, error) { return len(data), nil }

// WriteHeader implements [http.ResponseWriter].
func (*discardWriter) WriteHeader(int) {}
