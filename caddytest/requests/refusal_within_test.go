package requests

import (
	"net/http"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// withinResponses is a site whose limits stand in routes that answer in place of a response: of a proxy's backend, of other
// handlers, and of one within the other.
func withinResponses(t *testing.T) string {
	t.Helper()
	backend := caddytest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Etag", `"old"`)
		_, _ = w.Write([]byte("old")) // the client reads all
	})
	return `@proxied path /proxied
	reverse_proxy @proxied ` + backend + ` {
		handle_response {
			redis_ratelimit same 1 24h { name proxied }
			respond new
		}
	}
	@intercepted path /intercepted
	intercept @intercepted {
		handle_response {
			handle {
				redis_ratelimit same 1 24h { name intercepted }
				respond new
			}
		}
	}
	@nested path /nested
	intercept @nested {
		@old status 200
		handle_response @old {
			reverse_proxy ` + backend + ` {
				handle_response {
					redis_ratelimit same 1 24h { name nested }
					respond new
				}
			}
		}
	}
	reverse_proxy ` + backend
}

// TestDenial_withinResponses has limits in handle_response and intercept refuse. What stands around the limit handles no
// errors, so that a refusal has its own text, and the page of a site's error routes where they can answer.
func TestDenial_withinResponses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ errorRoutes, want string }{
		"no error routes":          {"", deniedText},
		"error routes of a status": {"handle_errors 502 { respond sorry }", deniedText},
		"error routes":             {`handle_errors { respond "sorry for {err.status_code}" }`, "sorry for 429"},
	} {
		t.Run(name, func(t *testing.T) {
			n := caddytest.InProcess(t, withinResponses(t)+"\n"+test.errorRoutes)
			for _, path := range []string{"/proxied", "/intercepted", "/nested"} {
				n.Get(t, path).Want(t, http.StatusOK, "new")
				a := caddytest.CheckRefusal(t, n.Get(t, path), http.StatusTooManyRequests)
				caddytest.CheckQuota(t, a.Want(t, 0, test.want), 1, 0)
				assert.ErrorIf(t, test.want == deniedText && a.Header.Get("Etag") != "", "%s: got %v, which has a header of the response before", path, a)
			}
		})
	}
}
