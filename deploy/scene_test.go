package deploy

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb"
)

// scene is a running Caddy with its Redis and upstream. Its Caddyfile has a policy for each thing that metrics count.
type scene struct {
	site, admin, redisAt string // host:port of each
	redis                *exec.Cmd
	client               *http.Client
	requests             chan chan struct{} // a request at the upstream; closing its channel sends the response
}

// startScene starts all three. They end with the test.
func startScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{
		site: freeAddr(t), admin: freeAddr(t), redisAt: freeAddr(t), requests: make(chan chan struct{}),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}, Timeout: 10 * time.Second},
	}
	s.startRedis(t)
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		respond := make(chan struct{})
		select {
		case s.requests <- respond:
			<-respond
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(upstream.Close)
	file, err := filepath.Abs("scene.caddyfile")
	must(t, err)
	_, port, _ := strings.Cut(s.site, ":")
	env := []string{"PORT=" + port, "ADMIN=" + s.admin, "REDIS=" + s.redisAt, "UPSTREAM=" + upstream.Listener.Addr().String()}
	startServer(t, s.site, env, binary(t), "run", "--config", file, "--adapter", "caddyfile")
	return s
}

// startRedis starts an empty Redis. Its address stays the same.
func (s *scene) startRedis(t *testing.T) {
	t.Helper()
	_, port, _ := strings.Cut(s.redisAt, ":")
	s.redis = startServer(t, s.redisAt, nil, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
}

// killRedisDuring kills Redis while the upstream handles a request, so that the request's refund fails.
func (s *scene) killRedisDuring(t *testing.T, path, client string) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		status, err := s.get(path, client)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s is answered with %d", path, status)
		}
		done <- err
	}()
	select {
	case respond := <-s.requests:
		_ = s.redis.Process.Kill() // it may have exited already
		wait(t, "Redis is gone", func() bool { return !listens(s.redisAt) })
		close(respond)
		must(t, <-done)
	case err := <-done:
		t.Fatalf("the upstream got no request: %v", err)
	}
}

// get sends a request as one of the clients and returns the status of the response. Headers are pairs
// of a name and a value.
func (s *scene) get(path, client string, headers ...string) (int, error) {
	r, err := http.NewRequest(http.MethodGet, "http://"+s.site+path, http.NoBody)
	if err != nil {
		return 0, err
	}
	r.Header.Set("X-Client", client)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body) // so that the connection is reused
	return response.StatusCode, err
}

// metrics returns the text of /metrics.
func (s *scene) metrics(t *testing.T) []byte {
	t.Helper()
	response, err := s.client.Get("http://" + s.admin + "/metrics")
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, err)
	}
	return text
}

// startServer runs a command in a folder of its own until the test ends, and waits until it listens on an address.
func startServer(t *testing.T, addr string, env []string, name string, args ...string) *exec.Cmd {
	t.Helper()
	var output bytes.Buffer // complete when it has exited
	command, exited := exec.Command(name, args...), make(chan struct{})
	command.Dir, command.Stdout, command.Stderr = t.TempDir(), &output, &output
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + command.Dir}, env...)
	must(t, command.Start())
	go func() {
		_ = command.Wait() // an error here is how it ends when stopped
		close(exited)
	}()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // it may have exited already
		select {
		case <-exited:
		case <-time.After(10 * time.Second):
			_ = command.Process.Kill() // it ignores the signal
			<-exited
		}
	})
	for deadline := time.Now().Add(time.Minute); ; {
		if listens(addr) {
			return command
		}
		select {
		case <-exited:
			t.Fatalf("%s exited:\n%s", name, &output)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen", name)
		}
	}
}

func listens(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
}

// freeAddr returns a loopback address that nothing listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close() //nolint:errcheck // nothing was accepted
	return listener.Addr().String()
}

// samples are readings of /metrics in a real Prometheus database.
type samples struct {
	db     *tsdb.DB
	engine *promql.Engine
}

func newSamples(t *testing.T) samples {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), nil, nil, tsdb.DefaultOptions(), nil)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() }) // the test removes its folder
	return samples{db, promql.NewEngine(promql.EngineOpts{MaxSamples: 10e6, Timeout: time.Minute})}
}

// add stores one reading of /metrics, as if Prometheus had read it at that time.
func (s samples) add(t *testing.T, text []byte, at time.Time) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	must(t, err)
	appender := s.db.Appender(t.Context())
	for _, family := range families {
		vector, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(at.UnixNano())}, family)
		must(t, err)
		for _, sample := range vector {
			series := labels.NewBuilder(labels.EmptyLabels()).Set("instance", "node-1:2019").Set("job", "caddy")
			for name, value := range sample.Metric {
				series.Set(string(name), string(value))
			}
			if _, err := appender.Append(0, series.Labels(), at.UnixMilli(), float64(sample.Value)); err != nil {
				t.Fatal(err)
			}
		}
	}
	must(t, appender.Commit())
}

// values evaluates an expression at every step from one time to another. NaN and infinite values, such as
// fractions of zero, are left out.
func (s samples) values(t *testing.T, expr string, from, to time.Time, step time.Duration) (numbers promql.Matrix) {
	t.Helper()
	query, err := s.engine.NewRangeQuery(t.Context(), s.db, nil, expr, from, to, step)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer query.Close()
	matrix, err := query.Exec(t.Context()).Matrix()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	for _, series := range matrix { // copied, because closing the query reuses its points
		kept := promql.Series{Metric: series.Metric}
		for _, p := range series.Floats {
			if !math.IsNaN(p.F) && !math.IsInf(p.F, 0) {
				kept.Floats = append(kept.Floats, p)
			}
		}
		if len(kept.Floats) > 0 {
			numbers = append(numbers, kept)
		}
	}
	return numbers
}
