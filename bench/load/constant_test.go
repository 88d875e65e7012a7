package load

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// serve starts a web server and returns its address.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestConstant_keeps_its_rate(t *testing.T) {
	var keys atomic.Int64
	addr := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != "" {
			keys.Add(1)
		}
	})
	result, latencies, err := Constant{Addr: addr, Rate: 500, Connections: 8, Duration: 400 * time.Millisecond}.Run(t.Context())
	redistest.Must(t, err)
	redistest.ErrorIf(t, len(latencies) != 200 || keys.Load() != 200, "%d answers, %d requests with a key; want 200", len(latencies), keys.Load())
	redistest.ErrorIf(t, result.Rate != 500 || result.Failed != 0 || result.Refused != 0, "got %+v", result)
}

func TestConstant_counts_the_wait_for_a_slow_server(t *testing.T) {
	addr := serve(t, func(http.ResponseWriter, *http.Request) {
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // the test needs a slow server
	})
	result, latencies, err := Constant{Addr: addr, Rate: 100, Connections: 1, Duration: 200 * time.Millisecond}.Run(t.Context())
	redistest.Must(t, err)
	last := latencies[len(latencies)-1]
	redistest.ErrorIf(t, last < 150*time.Millisecond, "a server that is twice too slow shows %v at most: %+v", last, result)
}

func TestParseWrk(t *testing.T) {
	const output = "Running 1s test\nRequests/sec: 20\n" +
		`{"requests":40,"duration":2000000,"p50":1500,"p99":9000,"refused":10,"failed":1}` + "\n"
	got, err := parseWrk([]byte(output))
	want := Result{Rate: 20, P50: 1500 * time.Microsecond, P99: 9 * time.Millisecond, Refused: 0.25, Failed: 1}
	redistest.ErrorIf(t, err != nil || got != want, "got %+v, %v; want %+v", got, err, want)
	if _, err := parseWrk([]byte("connection refused")); err == nil {
		t.Error("no error for an output without counts")
	}
}
