package simulate

import (
	"bytes"
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// Probe is a made request, with the response that it gets. Other than the entry of a log it has a body.
type Probe struct {
	accesslog.Entry

	// Body is the request's body; nil: the request has none.
	Body []byte

	// Values are what handlers set that are not run, such as that of a log-in: by placeholders, in full and without braces.
	Values map[string]string

	// Response is the header of the response.
	Response http.Header
}

// probing is a probe that is played.
type probing struct {
	*Probe
	checks []limiter.Check

	mayAnswer bool // a handler that the server has left out may be what answers
}

// begin gives a request what only a probe has.
func (p *probing) begin(r *http.Request, mayAnswer bool) {
	if p == nil {
		return
	}
	p.mayAnswer = mayAnswer
	r.Body, r.ContentLength = http.NoBody, 0
	if p.Body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(p.Body)), int64(len(p.Body))
	}
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		for name, value := range p.Values {
			repl.Set(name, value)
		}
	}
}

// note keeps the checks of a decision.
func (p *probing) note(made *gate.Decision) {
	if p != nil {
		p.checks = append(p.checks, made.Checks...)
	}
}
