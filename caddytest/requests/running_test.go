package requests

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	echo "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// onePlace is a policy that lets one request of a key run.
const onePlace = `redis_ratelimit {
		policy places { key {query.k}; max_concurrent 1 }
	}
	`

// showReason ends a site whose refusals show their reason.
const showReason = `
	handle_errors { respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.reason}" }`

// checkNonePasses sends a request of a key whose place is taken.
func checkNonePasses(t *testing.T, n *caddytest.Node, path string) {
	t.Helper()
	caddytest.CheckQuota(t, caddytest.CheckRefusal(t, n.Get(t, path).Want(t, 0, "denied max_concurrent", "Retry-After: 1"), http.StatusTooManyRequests), 1, 0) // a denial for a second, for max_concurrent
}

// checkPassesAgain waits until the place of a key is free: a request has ended a moment after its client got
// the last byte.
func checkPassesAgain(t *testing.T, n *caddytest.Node, path string) {
	t.Helper()
	n.Await(t, path, http.StatusOK, caddytest.Any)
	n.CheckMetric(t, `running{policy="places"}`, 0)
}

// TestRunning_lifetimes has a request run in each way, and end in each. Its place is taken until then and
// free afterwards.
func TestRunning_lifetimes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		path string
		site string // before the upstream; empty: none
		end  string // by: upstream, client
	}{
		"answered":              {path: "/"},
		"upstream breaks":       {path: "/broken"},
		"answer is cut":         {path: "/cut"}, // a panic in Caddy
		"stream ends":           {path: "/stream"},
		"WebSocket ends":        {path: "/websocket"},
		"client leaves":         {path: "/", end: "client"},
		"client leaves answer":  {path: "/cut", end: "client"},
		"client leaves stream":  {path: "/stream", end: "client"},
		"client ends WebSocket": {path: "/websocket", end: "client"},
		"encoded":               {path: "/stream", site: "encode"},
		"intercepted":           {path: "/", site: "intercept {\n@done status 200\nhandle_response @done {\nrespond intercepted 200\n}\n}"},
		"within route":          {path: "/", site: "route {\nheader X-Seen yes\n}"},
		"behind a response":     {path: "/", site: "reverse_proxy EMPTY {\nhandle_response {\nreverse_proxy UPSTREAM\n}\n}"},
		"inner limit":           {path: "/", site: "redis_ratelimit {query.k} 1000 24h {\nname window\n}"},
		"queue behind it":       {path: "/", site: "redis_ratelimit {\npolicy queue {\nkey same\nlimit 1000\nwindow 1s\nalgorithm leaky_bucket\nburst 1000\nmax_delay 1m\n}\n}"},
	}
	empty := caddytest.Serve(t, func(http.ResponseWriter, *http.Request) {})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := caddytest.InProcess(t, "")
			for source, global := range caddytest.Stores(t) {
				t.Run(source, func(t *testing.T) {
					upstream := caddytest.NewHolder(t)
					site := strings.NewReplacer("EMPTY", empty, "UPSTREAM", upstream.Addr).Replace(onePlace + test.site + "\nreverse_proxy UPSTREAM" + showReason)
					n.Reload(t, caddytest.Config(global, site))
					r := upstream.Begin(t, n, test.path+"?k=a")
					n.CheckMetric(t, `running{policy="places"}`, 1)
					checkNonePasses(t, n, "/quick?k=a")
					n.Get(t, "/quick?k=b").Want(t, http.StatusOK, caddytest.Any)
					if test.end == "client" {
						r.Leave()
					} else {
						upstream.EndOne()
					}
					<-r.Ended
					checkPassesAgain(t, n, "/quick?k=a")
				})
			}
		})
	}
}

// TestRunning_stalledReader has clients stop reading, each within a write timeout of the server that ends its answer.
func TestRunning_stalledReader(t *testing.T) {
	t.Parallel()
	const size = 64 << 20 // more than sockets hold
	upstream := caddytest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, size)) // the proxy leaves
	})
	for _, timeout := range []string{"write 1s", "write_idle 1s"} {
		n := caddytest.Start(t, caddytest.Config("servers {\ntimeouts {\n"+timeout+"\n}\n}", onePlace+"reverse_proxy "+upstream))
		response := assert.NoError(n.Client.Get(n.URL + "/?k=a"))(t) // its body is not read
		n.CheckMetric(t, `running{policy="places"}`, 0)
		_, err := io.Copy(io.Discard, response.Body)
		assert.ErrorIf(t, err == nil, "%s: the answer came to its end", timeout)
		_ = response.Body.Close() // which has broken off
	}
}

// TestRunning_errorRoutes has error routes answer for long. The request has ended for the limit before: its
// handlers have returned.
func TestRunning_errorRoutes(t *testing.T) {
	upstream := caddytest.NewHolder(t)
	n := caddytest.InProcess(t, onePlace+"@failing path /failing\nerror @failing 500\nreverse_proxy "+upstream.Addr+"\nhandle_errors 500 {\nrewrite /slow\nreverse_proxy "+upstream.Addr+"\n}"+showReason)
	r := upstream.Begin(t, n, "/failing?k=a")
	checkPassesAgain(t, n, "/quick?k=a")
	upstream.EndOne()
	<-r.Ended
}

// TestRunning_deniedFurtherIn denies requests behind a policy that they have passed. Their places are free at
// once, and those of requests that other policies of the same handler deny are never taken.
func TestRunning_deniedFurtherIn(t *testing.T) {
	t.Parallel()
	const window = "policy window {\nkey {query.k}\nlimit 1\nwindow 24h\n}\n"
	sites := map[string]string{
		"further in":   onePlace + "route {\nredis_ratelimit {\n" + window + "}\n}",
		"same handler": strings.Replace(onePlace, "policy places", window+"policy places", 1),
		"further out":  "redis_ratelimit {\n" + window + "}\n" + onePlace,
	}
	for name, site := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := caddytest.Start(t, caddytest.Config("", site+"\nrespond hello"+showReason))
			n.Get(t, "/?k=a")
			n.WantTimes(t, 19, "/?k=a", 0, "denied limit")
			n.CheckMetric(t, `running{policy="places"}`, 0)
		})
	}
}

// TestRunning_queue counts requests from their decision: those that a queue holds are running.
func TestRunning_queue(t *testing.T) {
	n := caddytest.InProcess(t, `redis_ratelimit {
		policy places { key {query.k}; max_concurrent 2 }
		policy queue { key same; limit 1; window 24h; algorithm leaky_bucket; burst 1000; max_delay 2400h }
	}
	respond hello`+showReason)
	n.Get(t, "/?k=first").Want(t, http.StatusOK, caddytest.Any)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			response, err := n.Client.Do(caddytest.GetRequest(ctx, t, n.URL+"/?k=a"))
			if err == nil {
				err = fmt.Errorf("status %d", response.StatusCode)
				_ = response.Body.Close()
			}
			ended <- err
		}()
	}
	n.CheckMetric(t, "held_requests", 2)
	n.Get(t, "/?k=a").Want(t, 0, "denied max_concurrent")
	n.CheckMetric(t, `running{policy="places"}`, 2)
	leave()
	for range 2 {
		if err := <-ended; ctx.Err() == nil || !strings.Contains(err.Error(), "canceled") {
			t.Error(err)
		}
	}
	n.CheckMetric(t, `running{policy="places"}`, 0)
}

// TestRunning_versions has clients of each version of HTTP leave, in a stream and before the response has begun.
func TestRunning_versions(t *testing.T) {
	t.Parallel()
	upstream := caddytest.NewHolder(t)
	n := startVersions(t, "", onePlace+"reverse_proxy "+upstream.Addr+showReason)
	for name, speaker := range speakers(t) {
		url := n.url(name)
		for _, path := range []string{"/stream?k=a", "/?k=a"} {
			ask(t, speaker, url+"/quick?k=b") // the certificate is issued
			client := *n.Node
			client.URL, client.Client = url, &http.Client{Transport: speaker}
			r := upstream.Begin(t, &client, path)
			n.CheckMetric(t, `running{policy="places"}`, 1)
			ask(t, speaker, url+"/quick?k=a").Want(t, 0, "denied max_concurrent")
			r.Leave()
			<-r.Ended
			n.CheckMetric(t, `running{policy="places"}`, 0)
		}
	}
}

// TestRunning_grpc counts a call until its streams have ended.
func TestRunning_grpc(t *testing.T) {
	t.Parallel()
	service := startGRPCService(t)
	n := startVersions(t, "", strings.ReplaceAll(onePlace, "{query.k}", "same")+"reverse_proxy h2c://"+service.addr)
	for transport := range n.addresses {
		client := n.dial(t, transport, "")
		stream := assert.NoError(client.FullDuplexCall(withKey(t, "a")))(t)
		assert.Must(t, stream.Send(&echo.StreamingOutputCallRequest{}))
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		_, err := client.EmptyCall(withKey(t, "a"), &echo.Empty{})
		s := status.Convert(err)
		assert.ErrorIf(t, s.Code() != codes.ResourceExhausted || s.Message() != "too many calls are running: policy places, retry in 1 s", "%s: got %v", transport, err)
		assert.Must(t, stream.CloseSend())
		assert.WaitFor(t, "the place is free", func() error {
			_, err := client.EmptyCall(withKey(t, "a"), &echo.Empty{})
			return err
		})
		n.CheckMetric(t, `running{policy="places"}`, 0)
	}
}
