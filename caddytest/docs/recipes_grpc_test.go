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
)

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
	if configured == nil {
		t.Fatal("the recipe has no service configuration")
	}
	dial := func(config string) grpcClient {
		connection, err := grpc.NewClient(strings.TrimPrefix(e.URL, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(config))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() }) // no call is open
		return grpcClient{connection}
	}
	patient, hasty := dial(configured[1]), dial("{}")
	for range 40 { // half of them beyond the burst
		if err := patient.call(t, "List", "patient"); err != nil {
			t.Fatalf("a call that waits: %v", err)
		}
	}
	if passed := len(e.backend.seen()); passed != 40 {
		t.Errorf("%d calls have reached the service, want 40", passed)
	}
	for range 5 {
		if err := patient.call(t, "Export", "exporter"); err != nil {
			t.Fatalf("an export: %v", err)
		}
	}
	var trailer metadata.MD
	err := patient.call(t, "Export", "exporter", grpc.Trailer(&trailer))
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "policy exports") || strings.Join(trailer["grpc-retry-pushback-ms"], "|") != "-1" {
		t.Errorf("the sixth export got %v, %v", err, trailer)
	}
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
			if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "policy calls, retry in 1 s") {
				t.Errorf("the hasty client got %v", err)
			}
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
