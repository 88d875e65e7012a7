package requests

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// grpcLimit admits one call of a key a day.
const grpcLimit = "redis_ratelimit {header.X-Key} 1 24h {\nname calls\nalgorithm gcra\n%s\n}\n"

// TestGRPC_kinds has a call of each kind pass and its repetition denied, over each transport, with error
// routes that are for other requests.
func TestGRPC_kinds(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		service := startGRPCService(t)
		n := startVersions(t, option, "encode gzip\n"+fmt.Sprintf(grpcLimit, "headers x_ratelimit ietf")+"reverse_proxy h2c://"+service.addr+"\nhandle_errors {\nrespond refused\n}")
		for transport := range n.addresses {
			client := n.dial(t, transport, "")
			for kind, call := range grpcCalls {
				t.Run(transport+"/"+kind, func(t *testing.T) {
					ctx, before := withKey(t, transport+kind), service.calls.Load()
					if err := call(ctx, client); err != nil {
						t.Fatalf("the first call: %v", err)
					}
					var header, trailer metadata.MD
					err := call(ctx, client, grpc.Header(&header), grpc.Trailer(&trailer))
					checkDeniedCall(t, err, trailer)
					assert.ErrorIf(t, len(header) > 0 || service.calls.Load() != before+1, "%d calls have reached the service, want 1; the headers before the trailers are %v", service.calls.Load()-before, header)
				})
			}
		}
		n.checkLoggedCall(t)
	})
}

// checkDeniedCall checks a denial by a quota of one unit a day.
func checkDeniedCall(t *testing.T, err error, trailer metadata.MD) {
	t.Helper()
	seconds := strings.Join(trailer["retry-after"], "|")
	want := "rate limit exceeded: policy calls, retry in " + seconds + " s"
	assert.ErrorIf(t, status.Code(err) != codes.ResourceExhausted || status.Convert(err).Message() != want, "got %v; want %q", err, want)
	wants := map[string]string{
		"content-type": "application/grpc", "grpc-retry-pushback-ms": "-1", "cache-control": "no-store",
		"x-ratelimit-limit": "1", "x-ratelimit-remaining": "0", "ratelimit-policy": `"calls";q=1;w=86400`, "ratelimit": `"calls";r=0;t=` + seconds,
	}
	for name, want := range wants {
		assert.Equal(t, strings.Join(trailer[name], "|"), want, "%s", name)
	}
}

// checkLoggedCall checks that the access log and the metrics show denials where the status is 200.
func (n *versionsNode) checkLoggedCall(t *testing.T) {
	t.Helper()
	denied := 0
	assert.WaitFor(t, "the access log has the denials", func() error {
		lines := n.Log.Lines(func(l caddytest.LogLine) bool { return strings.Contains(l.Text, `"ratelimit_decision":"denied"`) })
		for _, l := range lines {
			assert.ErrorIf(t, !strings.Contains(l.Text, `"status":200`) || !strings.Contains(l.Text, `"ratelimit_reason":"limit"`) || !strings.Contains(l.Text, `"Grpc-Status":["8"]`), "got %s", l.Text)
		}
		if denied = len(lines); denied < 2*len(grpcCalls) {
			return fmt.Errorf("%d have come", denied)
		}
		return nil
	})
	assert.Equal(t, n.denied(t), float64(denied), "the number of denials in the metrics, which are those of the access log,")
}

// TestGRPC_refusals has calls refused for each reason, under error routes, which are for
// other requests, and with answers that go before the form.
func TestGRPC_refusals(t *testing.T) {
	t.Parallel()
	away := "redis_ratelimit {\nredis redis://" + redistest.FreeAddr(t) + "\nfail_mode closed\n}"
	for name, test := range map[string]struct {
		global, options, pushback string
		code                      codes.Code
	}{
		"denied":        {options: "status 503\nanswer auto", code: codes.ResourceExhausted, pushback: "-1"},
		"undecided":     {global: away, code: codes.Unavailable},
		"undecided_too": {global: away, options: "answer auto", code: codes.Unavailable},
		"without_key":   {options: "key {header.X-None}\non_empty_key reject", code: codes.InvalidArgument, pushback: "-1"},
		"off":           {options: "answer error", code: codes.Unavailable, pushback: "none"},   // what clients make of 429
		"off_too":       {options: "answer problem", code: codes.Unavailable, pushback: "none"}, // the same
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := "redis_ratelimit {\nname calls\nlimit 1\nwindow 24h\nalgorithm gcra\n" + test.options + "\n}\n"
			service := startGRPCService(t)
			n := startVersions(t, test.global, limit+"reverse_proxy h2c://"+service.addr+"\nhandle_errors {\nrespond refused\n}")
			client := n.dial(t, "h2c", "")
			if test.code == codes.ResourceExhausted || test.pushback == "none" {
				assert.Must(t, grpcCalls["unary"](withKey(t, name), client))
			}
			var trailer metadata.MD
			err := grpcCalls["unary"](withKey(t, name), client, grpc.Trailer(&trailer))
			assert.ErrorIf(t, status.Code(err) != test.code, "got %v; want %v", err, test.code)
			pushback := strings.Join(trailer["grpc-retry-pushback-ms"], "|")
			switch test.pushback {
			case "none":
				assert.ErrorIf(t, pushback != "", "the pushback is %s, want none", pushback)
			case "":
				if wait, err := strconv.Atoi(pushback); err != nil || wait < 1 || wait > 60_000 || trailer["retry-after"] == nil {
					t.Errorf("the pushback is %q, Retry-After %q", pushback, trailer["retry-after"])
				}
			default:
				assert.ErrorIf(t, pushback != test.pushback, "the pushback is %s, want %s", pushback, test.pushback)
			}
		})
	}
}

// TestGRPC_countIf_replaced has a handler in between answer a denial with a response of its own, by which
// the handler further out counts.
func TestGRPC_countIf_replaced(t *testing.T) {
	t.Parallel()
	for _, replaced := range []int{http.StatusOK, http.StatusForbidden} {
		for _, countIf := range []int{http.StatusOK, http.StatusForbidden, http.StatusTooManyRequests} {
			n := caddytest.Start(t, caddytest.Config("", fmt.Sprintf(`route {
				redis_ratelimit same 9 24h { name outer; count_if status %d }
				intercept {
					@call header Grpc-Status 8
					handle_response @call { header -Grpc-Status; respond %d }
				}
				redis_ratelimit same 1 24h { name inner }
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
