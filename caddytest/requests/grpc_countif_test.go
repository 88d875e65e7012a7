package requests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestGRPC_countIf has handlers further out count by the status of the refusal, under all error routes.
func TestGRPC_countIf(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "respond old"))
	away := `"redis_ratelimit": {"redis": {"addresses": ["` + redistest.FreeAddr(t) + `"]}}, `
	for refusal, test := range map[string]struct {
		status       string
		redis, inner string
	}{
		"denied_429":  {"429", "", `"policies": [{"name": "inner", "key": "same", "limit": 1, "window": "24h", "weight_from": "{http.vars.heavy}"}]`},
		"denied_503":  {"503", "", `"status": 503, "policies": [{"name": "inner", "key": "same", "limit": 1, "window": "24h", "weight_from": "{http.vars.heavy}"}]`},
		"closed_503":  {"503", away, `"fail_mode": "closed", "policies": [{"name": "inner", "key": "same", "limit": 1, "window": "24h"}]`},
		"rejects_400": {"400", "", `"on_empty_key": "reject", "policies": [{"name": "inner", "key": "{http.vars.none}", "limit": 1, "window": "24h"}]`},
	} {
		for _, routes := range []string{"none", "both"} {
			for countIf, want := range map[string]int64{test.status: 3, "2": 0, "401": 0} {
				name := strings.Join([]string{"call", refusal, routes, countIf}, "-")
				t.Run(name, func(t *testing.T) {
					around := errorRoutes[routes]
					s := nested{
						redis: test.redis, name: name, countIf: countIf, server: around.server, subroute: around.subroute,
						refusing: `{"handler": "vars", "heavy": "2"}, {"handler": "redis_ratelimit", ` + test.inner + `}`,
					}
					if got := s.used(t, n, http.StatusOK, "Content-Type: application/grpc"); got != want {
						t.Errorf("%d units are used, want %d", got, want)
					}
				})
			}
		}
	}
}

// TestGRPC_countIf_replaced has a handler in between answer a denial with a response of its own, by which
// the handler further out counts.
func TestGRPC_countIf_replaced(t *testing.T) {
	t.Parallel()
	for _, replaced := range []int{http.StatusOK, http.StatusForbidden} {
		for _, countIf := range []int{http.StatusOK, http.StatusForbidden, http.StatusTooManyRequests} {
			n := caddytest.Start(t, caddytest.Config("", fmt.Sprintf(`route {
				redis_ratelimit same 9 24h {
					name outer
					count_if status %d
				}
				intercept {
					@call header Grpc-Status 8
					handle_response @call {
						header -Grpc-Status
						respond %d
					}
				}
				redis_ratelimit same 1 24h {
					name inner
				}
				respond 204
			}`, countIf, replaced)))
			for range 3 {
				n.Send(t, http.MethodPost, n.URL, "", "Content-Type: application/grpc")
			}
			want := int64(9)
			if replaced == countIf {
				want = 7
			}
			n.WaitForRefund(t, "outer", "same", want)
		}
	}
}
