package requests

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	echo "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestRunning_versions has clients of each version of HTTP leave, in a stream and before the response has begun.
func TestRunning_versions(t *testing.T) {
	t.Parallel()
	upstream := caddytest.NewHolder(t)
	const options = "skip_install_trust\nservers {\nprotocols h1 h2 h2c h3\n}\n"
	open, site := redistest.FreeAddr(t), onePlace+"reverse_proxy "+upstream.Addr+showReason+"\n}\n"
	text := caddytest.ConfigWithSites(options, "https://localhost:{$PORT} {\ntls internal\n"+site+"http://"+open+" {\n"+site)
	n := caddytest.Start(t, strings.Replace(text, "auto_https off", "auto_https disable_redirects", 1))
	for name, speaker := range speakers(t) {
		url := strings.Replace(n.LocalhostURL(), "http:", "https:", 1)
		if strings.Contains(name, "cleartext") {
			url = "http://" + open
		}
		for _, path := range []string{"/stream?k=a", "/?k=a"} {
			ask(t, speaker, url+"/quick?k=b") // the certificate is issued
			ctx, leave := context.WithCancel(t.Context())
			left := make(chan struct{})
			go func() {
				defer close(left)
				response, err := speaker.RoundTrip(caddytest.GetRequest(ctx, t, url+path))
				if err == nil {
					<-ctx.Done()
					_ = response.Body.Close() // its client has left
				}
			}()
			n.CheckMetric(t, `running{policy="places"}`, 1)
			if a := ask(t, speaker, url+"/quick?k=a"); a.Body != "denied max_concurrent" {
				t.Errorf("%s: got %v", name, a)
			}
			leave()
			<-left
			n.CheckMetric(t, `running{policy="places"}`, 0)
		}
	}
}

// TestRunning_grpc counts a call until its streams have ended.
func TestRunning_grpc(t *testing.T) {
	t.Parallel()
	service := startGRPCService(t)
	n := startGRPCNode(t, "", strings.ReplaceAll(onePlace, "{query.k}", "same")+"reverse_proxy h2c://"+service.addr)
	for transport := range n.addresses {
		client := n.dial(t, transport, "")
		stream, err := client.FullDuplexCall(withKey(t, "a"))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&echo.StreamingOutputCallRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		_, err = client.EmptyCall(withKey(t, "a"), &echo.Empty{})
		if s := status.Convert(err); s.Code() != codes.ResourceExhausted || s.Message() != "too many calls are running: policy places, retry in 1 s" {
			t.Errorf("%s: got %v", transport, err)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		redistest.WaitFor(t, "the place is free", func() error {
			_, err := client.EmptyCall(withKey(t, "a"), &echo.Empty{})
			return err
		})
		n.CheckMetric(t, `running{policy="places"}`, 0)
	}
}
