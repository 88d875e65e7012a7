// Package contenders is a Caddy handler with other limiters than this repository's, to measure all of
// them behind the same web server.
package contenders

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// The first policy of all contenders. Further ones differ in their window.
const (
	Limit  = 1_000_000
	Window = time.Hour
)

const directive = "contender"

func init() {
	caddy.RegisterModule(Handler{})
	httpcaddyfile.RegisterHandlerDirective(directive, parse)
	httpcaddyfile.RegisterDirectiveOrder(directive, httpcaddyfile.Before, "basic_auth")
}

// Handler limits requests with a contender, by the X-Key header. It sets the same three response
// headers as this repository's handler.
type Handler struct {
	// The name of the contender, a key of ways.
	Way string `json:"way,omitempty"`

	// The address of Redis.
	Address string `json:"address,omitempty"`

	// How many policies a request meets, the first ones of Windows. Default: 1.
	Policies int `json:"policies,omitempty"`

	limiter limiter
	limit   []string // the value of X-RateLimit-Limit, which is constant
}

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.contender",
		New: func() caddy.Module { return new(Handler) },
	}
}

// parse reads the directive:
//
//	contender <way> <address> [<policies>]
func parse(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	handler := new(Handler)
	err := handler.UnmarshalCaddyfile(h.Dispenser)
	return handler, err
}

// UnmarshalCaddyfile implements [caddyfile.Unmarshaler].
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.Args(&h.Way, &h.Address) {
		return d.ArgErr()
	}
	if d.NextArg() {
		policies, err := strconv.Atoi(d.Val())
		if err != nil {
			return d.WrapErr(err)
		}
		h.Policies = policies
	}
	return nil
}

// Provision builds the contender's client.
func (h *Handler) Provision(caddy.Context) (err error) {
	h.limit = []string{strconv.Itoa(Limit)}
	if h.Policies == 0 {
		h.Policies = 1
	}
	h.limiter, err = newLimiter(h.Way, h.Address, h.Policies)
	return err
}

// Cleanup closes the client.
func (h *Handler) Cleanup() error {
	if h.limiter == nil {
		return nil
	}
	return h.limiter.Close()
}

var errDenied = errors.New("rate limit exceeded")

// ServeHTTP calls the next handler or responds with 429, or with 503 where Redis did not answer.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	answer, err := h.limiter.take(r.Context(), r.Header.Get("X-Key"))
	if err != nil {
		return caddyhttp.HandlerError{StatusCode: http.StatusServiceUnavailable, Err: err}
	}
	header := w.Header()
	header["X-Ratelimit-Limit"] = h.limit
	header["X-Ratelimit-Remaining"] = []string{strconv.FormatInt(answer.remaining, 10)}
	header["X-Ratelimit-Reset"] = []string{strconv.FormatInt(time.Now().Add(answer.resetAfter).Unix()+1, 10)}
	if !answer.allowed {
		return caddyhttp.HandlerError{StatusCode: http.StatusTooManyRequests, Err: errDenied}
	}
	return next.ServeHTTP(w, r)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyfile.Unmarshaler       = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
