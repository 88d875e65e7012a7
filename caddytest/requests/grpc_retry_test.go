package requests

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// retryOn returns a service configuration whose backoff is far below any wait of these tests.
func retryOn(code string) string {
	return `{"methodConfig": [{"name": [{}], "waitForReady": true, "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.01s",
		"maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["` + code + `"]}}]}`
}

// denied returns how many attempts were denied.
func (n *grpcNode) denied(t *testing.T) (sum float64) {
	t.Helper()
	for _, source := range []string{"memory", "redis", "deny_cache"} {
		sum += n.Metric(t, `decisions_total{decision="denied",policy="calls",source="`+source+`"}`)
	}
	return sum
}

// TestGRPC_pushback has a client wait for as long as it is told to. Its next attempt passes. With its own
// backoff all its attempts would be denied.
func TestGRPC_pushback(t *testing.T) {
	t.Parallel()
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		service := startGRPCService(t)
		n := startGRPCNode(t, option, "redis_ratelimit {header.X-Key} 1 1s {\nname calls\nalgorithm gcra\n}\nreverse_proxy h2c://"+service.addr)
		for _, kind := range []string{"unary", "server_stream", "bidirectional"} {
			client, before := n.dial(t, "h2c", retryOn("RESOURCE_EXHAUSTED")), n.denied(t)
			for n.denied(t) == before { // until a call comes within a second of the one before
				if err := grpcCalls[kind](withKey(t, kind), client); err != nil {
					t.Fatalf("%s: %v", kind, err)
				}
			}
			if attempts := n.denied(t) - before; attempts != 1 {
				t.Errorf("%s: %v attempts were denied, want 1: the next one came too early", kind, attempts)
			}
		}
	})
}

// TestGRPC_noRetry has clients give up at once: where the wait is too long, and where their policy is for
// other codes, for which they ignore the pushback. Without gRPC's form they repeat the call in vain.
func TestGRPC_noRetry(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		window, options, retried string
		code                     codes.Code
		attempts                 float64
	}{
		"too_long":   {"1h", "", "RESOURCE_EXHAUSTED", codes.ResourceExhausted, 1},
		"never":      {"50s", "weight {header.X-Weight} 1", "RESOURCE_EXHAUSTED", codes.ResourceExhausted, 1},
		"other_code": {"50s", "", "UNAVAILABLE", codes.ResourceExhausted, 1},
		"off":        {"50s", "grpc off", "UNAVAILABLE", codes.Unavailable, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := startGRPCService(t)
			n := startGRPCNode(t, "", "redis_ratelimit {header.X-Key} 1 "+test.window+" {\nname calls\nalgorithm gcra\n"+test.options+"\n}\nreverse_proxy h2c://"+service.addr)
			client := n.dial(t, "h2c", retryOn(test.retried))
			if err := grpcCalls["unary"](withKey(t, name), client); err != nil {
				t.Fatal(err)
			}
			err := grpcCalls["unary"](metadata.AppendToOutgoingContext(withKey(t, name), "x-weight", "2"), client)
			if attempts := n.denied(t); status.Code(err) != test.code || attempts != test.attempts || service.calls.Load() != 1 {
				t.Errorf("got %v after %v attempts, want %v after %v", err, attempts, test.code, test.attempts)
			}
		})
	}
}
