package docs

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// hold keeps a WebSocket until its client closes it, and a request with hold in its query until the client leaves. It reports
// whether the request is one of these.
func (b *backend) hold(w http.ResponseWriter, r *http.Request) bool {
	held := r.Header.Get("Upgrade") == "websocket" || r.URL.Query().Has("hold")
	if held {
		b.holder.ServeHTTP(w, r)
	}
	return held
}

// start sends requests that the backend holds, and returns the function by which their clients leave.
func (e recipeEnv) start(t *testing.T, count int, path string, headers ...string) (leave func()) {
	t.Helper()
	var begun []*caddytest.HeldRequest
	for range count {
		begun = append(begun, e.backend.holder.Begin(t, e.Node, path, headers...))
	}
	return func() {
		for _, r := range begun {
			r.Leave()
		}
	}
}

// checkAllowedAgain waits until a request passes.
func (e recipeEnv) checkAllowedAgain(t *testing.T, path string, headers ...string) {
	t.Helper()
	assert.Retry(t, "a place is free", func() (again bool, seen any) {
		a := e.Get(t, path, headers...)
		return a.Status != http.StatusOK, a
	})
}

// recipeBackendTime has ten slow pages at once, which use up more time than is left.
func recipeBackendTime(t *testing.T, e recipeEnv) {
	e.Get(t, "/").Want(t, http.StatusOK, caddytest.Any)
	leave := e.start(t, 10, "/?hold")
	caddytest.CheckRefusal(t, e.Get(t, "/"), http.StatusTooManyRequests) // the eleventh at once
	<-time.After(3 * time.Second)
	leave()
	assert.Retry(t, "the time is used up", func() (again bool, seen any) {
		left := e.Remaining(t, "backend-time", "127.0.0.1")
		return left > 0, left
	})
	refusal := caddytest.CheckRefusal(t, e.Get(t, "/"), http.StatusTooManyRequests)
	if _, most := e.backend.holder.Running(); most > 10 || refusal.Header.Get("X-Ratelimit-Limit") != "20000" {
		t.Errorf("%d ran at once, and %v; want 10, and no time left", most, refusal)
	}
}

func recipeParallel(t *testing.T, e recipeEnv) {
	const key = "X-Api-Key: key-of-acme"
	leave := e.start(t, 2, "/?hold", key)
	caddytest.CheckRefusal(t, e.Get(t, "/reports", key), http.StatusTooManyRequests)
	caddytest.CheckQuota(t, e.Get(t, "/", key), 4, 1)
	e.start(t, 2, "/?hold", key)
	caddytest.CheckQuota(t, caddytest.CheckRefusal(t, e.Get(t, "/", key), http.StatusTooManyRequests), 4, 0)
	caddytest.CheckQuota(t, e.Get(t, "/", "X-Api-Key: key-of-bolt"), 4, 3)
	e.Get(t, "/").Want(t, http.StatusBadRequest, caddytest.Any)
	leave()
	e.checkAllowedAgain(t, "/", key)
	e.WaitForRefund(t, "hour", "key-of-acme", 1000-6) // the denied are not counted
}

func recipeDownloads(t *testing.T, e recipeEnv) {
	leave := e.start(t, 2, "/downloads/large?hold")
	caddytest.CheckRefusal(t, e.Get(t, "/downloads/small"), http.StatusTooManyRequests)
	e.Get(t, "/page").WantFree(t)
	leave()
	e.checkAllowedAgain(t, "/downloads/small")
	e.CheckMetric(t, `running{policy="parallel"}`, 0)
	recipeVolume(t, e)
}

func recipeWebSockets(t *testing.T, e recipeEnv) {
	const session = "Cookie: session=one"
	upgrade := []string{"Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", session}
	leave := e.start(t, 3, "/socket", upgrade...)
	caddytest.CheckRefusal(t, e.Get(t, "/socket", upgrade...), http.StatusTooManyRequests)
	for _, spelled := range [][]string{
		{"Connection: upgrade", "Upgrade: websocket"}, {"Connection: keep-alive", "Connection: UPGRADE", "Upgrade: WebSocket"}, {"Connection: upgrade", "Upgrade: h2c, websocket"},
	} {
		caddytest.CheckRefusal(t, e.Get(t, "/socket", append(spelled, "Cookie: session=%6fne")...), http.StatusTooManyRequests)
	}
	e.Get(t, "/socket", append(upgrade[:4:4], `Cookie: session="o\ne"`)...).Want(t, http.StatusBadRequest, caddytest.Any)
	e.Get(t, "/page", session).WantFree(t)
	leave()
	e.CheckMetric(t, `running{policy="websockets"}`, 0)
	e.start(t, 3, "/socket", upgrade...)
}

func recipeSlowBackend(t *testing.T, e recipeEnv) {
	e.start(t, 8, "/?hold")
	caddytest.CheckQuota(t, caddytest.CheckRefusal(t, e.Get(t, "/"), http.StatusServiceUnavailable), 8, 0)
	e.backend.holder.EndAll()
	e.checkAllowedAgain(t, "/")
	e.CheckMetric(t, `running{policy="backend"}`, 0)
}

// grpcBackend answers calls of any method with an empty message.
var grpcBackend = grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
	if err := stream.RecvMsg(new(grpc_testing.Empty)); err != nil {
		return err
	}
	return stream.SendMsg(new(grpc_testing.Empty))
}))

// grpcClient calls the service of a recipe.
type grpcClient struct{ *grpc.ClientConn }

// call makes a call of a customer, who has no key where it is empty.
func (c grpcClient) call(t *testing.T, method, key string, options ...grpc.CallOption) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-api-key", key)
	}
	return c.Invoke(ctx, "/shop.v1.Orders/"+method, new(grpc_testing.Empty), new(grpc_testing.Empty), options...)
}

func recipeGRPC(t *testing.T, e recipeEnv) {
	_, section, _ := strings.Cut(readRecipesText(t), "\n## gRPC service\n")
	configured := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(section)
	assert.FatalIf(t, configured == nil, "the recipe has no service configuration")
	dial := func(config string) grpcClient {
		connection, err := grpc.NewClient(strings.TrimPrefix(e.URL, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(config))
		assert.Must(t, err)
		t.Cleanup(func() { _ = connection.Close() }) // no call is open
		return grpcClient{connection}
	}
	patient, hasty := dial(configured[1]), dial("{}")
	for range 40 { // half of them beyond the burst
		if err := patient.call(t, "List", "patient"); err != nil {
			t.Fatalf("a call that waits: %v", err)
		}
	}
	passed := len(e.backend.seen())
	assert.ErrorIf(t, passed != 40, "%d calls have reached the service, want 40", passed)
	for range 5 {
		if err := patient.call(t, "Export", "exporter"); err != nil {
			t.Fatalf("an export: %v", err)
		}
	}
	var trailer metadata.MD
	err := patient.call(t, "Export", "exporter", grpc.Trailer(&trailer))
	assert.ErrorIf(t, status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "policy exports") || strings.Join(trailer["grpc-retry-pushback-ms"], "|") != "-1", "the sixth export got %v, %v", err, trailer)
	if err := patient.call(t, "List", "exporter"); err != nil {
		t.Errorf("a call after the exports: %v", err)
	}
	if err := patient.call(t, "List", ""); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a call without a key got %v", err)
	}
	var group sync.WaitGroup
	for range 8 { // as fast as they can, without a retry policy
		group.Go(func() {
			var err error
			for err == nil {
				err = hasty.call(t, "List", "hasty")
			}
			assert.ErrorIf(t, status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "policy calls, retry in 1 s"), "the hasty client got %v", err)
		})
	}
	group.Wait()
}

// serveGRPC answers a call. It reports whether the request is one.
func serveGRPC(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		return false
	}
	grpcBackend.ServeHTTP(w, r)
	return true
}
