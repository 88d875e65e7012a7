package routetrace

import (
	"net/http"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
)

// Tracer takes requests through plans. It may be used again once [Tracer.Run] has returned.
type Tracer struct {
	// OnLimiter is called for every limiter that the request meets, and reports whether the request goes
	// on. Required.
	OnLimiter func(l *gate.Limiter, r *http.Request) (goesOn bool, err error)

	// Skipped are the handlers that the last request passed although only a real one can.
	Skipped []string

	request *http.Request
	writer  DiscardWriter
	groups  []string // of routes that have matched
	passed  bool     // the handler that mutates has called the next one
}

// Run takes a request through a plan and reports whether it ended there.
func (t *Tracer) Run(p *Plan, r *http.Request) (ended bool, err error) {
	t.request, t.groups, t.Skipped = r, t.groups[:0], nil
	t.writer = DiscardWriter{} // handlers add to the header
	return t.run(p.Routes)
}

// run takes the request through routes and reports whether it ended there.
func (t *Tracer) run(routes []plannedRoute) (ended bool, err error) {
	for i := range routes {
		route := &routes[i]
		if route.Group != "" && slices.Contains(t.groups, route.Group) {
			continue
		}
		matches, err := route.Matchers.AnyMatchWithError(t.request)
		if err != nil {
			return true, err
		}
		if !matches {
			continue
		}
		if route.Group != "" {
			t.groups = append(t.groups, route.Group)
		}
		for j := range route.Steps {
			if ended, err := t.step(&route.Steps[j]); ended || err != nil {
				return true, err
			}
		}
		if route.Terminal {
			return true, nil
		}
	}
	return false, nil
}

// step takes the request through one handler and reports whether it ended there.
func (t *Tracer) step(s *plannedStep) (ended bool, err error) {
	switch {
	case s.Limiter != nil:
		goesOn, err := t.OnLimiter(s.Limiter, t.request)
		return !goesOn, err
	case s.Mutates != nil:
		t.passed = false
		err := s.Mutates.ServeHTTP(&t.writer, t.request, t)
		return !t.passed, err
	case s.Ends:
		return true, nil
	case s.Skipped != "":
		if !slices.Contains(t.Skipped, s.Skipped) {
			t.Skipped = append(t.Skipped, s.Skipped)
		}
		return false, nil
	}
	return t.run(s.Inside)
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
