package plugins

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

func init() {
	caddy.RegisterModule(rescue{})
	httpcaddyfile.RegisterHandlerDirective("rescue", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		h.Next()
		routes, err := httpcaddyfile.ParseSegmentAsSubroute(h.WithDispenser(h.NewFromNextSegment()))
		if err != nil {
			return nil, err
		}
		inner, ok := routes.(*caddyhttp.Subroute)
		if !ok {
			return nil, h.Err("no routes")
		}
		return &rescue{Routes: inner.Routes}, nil
	})
	httpcaddyfile.RegisterDirectiveOrder("rescue", httpcaddyfile.Before, "respond")
}

// rescue stands for a plugin that has routes of its own, and answers their errors.
type rescue struct {
	Routes caddyhttp.RouteList `json:"routes"`
}

func (rescue) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.rescue", New: func() caddy.Module { return new(rescue) }}
}

func (s *rescue) Provision(ctx caddy.Context) error { return s.Routes.Provision(ctx) }

func (s *rescue) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	err := s.Routes.Compile(next).ServeHTTP(w, r)
	failure := caddyhttp.HandlerError{}
	if !errors.As(err, &failure) {
		return err
	}
	w.WriteHeader(failure.StatusCode)
	_, err = io.WriteString(w, "rescued")
	return err
}

var _ caddyhttp.MiddlewareHandler = (*rescue)(nil)

// TestRescue_around has a limit within a plugin's routes, and in handle_response of a proxy there: the plugin's page answers.
func TestRescue_around(t *testing.T) {
	t.Parallel()
	backend := caddytest.Serve(t, func(http.ResponseWriter, *http.Request) {})
	n := start(t, "", `rescue /plain {
		redis_ratelimit same 1 24h { name plain }
		respond ok
	}
	rescue {
		reverse_proxy `+backend+` {
			handle_response {
				redis_ratelimit same 1 24h { name proxied }
				respond ok
			}
		}
	}`)
	for _, path := range []string{"/plain", "/proxied"} {
		n.Get(t, path).Want(t, http.StatusOK, "ok")
		caddytest.CheckRefusal(t, n.Get(t, path), http.StatusTooManyRequests).Want(t, 0, "rescued")
	}
}
