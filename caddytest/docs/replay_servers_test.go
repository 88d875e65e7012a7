package docs

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// This file has real servers write the logs that docs/replay.md recommends.

// loggingServer is a program that passes requests on and logs them.
type loggingServer struct {
	program string
	tag     string // of the format in the page
	config  string // with the folder, the format, the address to listen at and the backend
	args    func(config string) []string
	other   string // another format, as it is written in the configuration and as --format gets it
}

var loggingServers = []loggingServer{
	{
		program: "nginx", tag: "nginx",
		config: `daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log;
events { worker_connections 100; }
http {
	%[2]s
	log_format other '%[5]s';
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	server {
		listen %[3]s;
		access_log %[1]s/access.log replay;
		access_log %[1]s/other.log other;
		location / { proxy_pass %[4]s; }
	}
}`,
		args:  func(config string) []string { return []string{"-c", config} },
		other: `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time $msec`,
	},
	{
		program: "apache2", tag: "apache",
		config: `ServerName localhost
ServerRoot %[1]s
DefaultRuntimeDir %[1]s
PidFile %[1]s/pid
ErrorLog %[1]s/error.log
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so
User daemon
Group daemon
Listen %[3]s
ProxyPass / %[4]s/ nocanon
%[2]s
LogFormat "%[5]s" other
CustomLog %[1]s/access.log replay
CustomLog %[1]s/other.log other
`,
		args:  func(config string) []string { return []string{"-X", "-f", config} },
		other: `%v %h %l %u [%{%d/%b/%Y:%T}t.%{usec_frac}t %{%z}t] \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\" %D`,
	},
}

// TestReplay_page_logs has nginx and Apache log requests in the recommended formats, and compares starts, durations and the
// rest with what was sent.
func TestReplay_page_logs(t *testing.T) {
	t.Parallel()
	page := caddytest.ReadFile(t, "docs/replay.md")
	for _, s := range loggingServers {
		t.Run(s.program, func(t *testing.T) {
			t.Parallel()
			found := regexp.MustCompile("(?s)```" + s.tag + "\n(.*?)\n```").FindStringSubmatch(page)
			assert.FatalIf(t, found == nil, "docs/replay.md has no format of %s", s.program)
			binary, err := exec.LookPath(s.program)
			if err != nil {
				t.Skipf("no %s writes a log without its program: install the package %[1]s", s.program)
			}
			format := assert.NoError(accesslog.ParseFormat(s.other))(t)
			tries := 0
			assert.Retry(t, "times are those of the requests", func() (again bool, seen any) { // which a busy server looks at too late
				tries++
				backend := &slowBackend{begun: make(chan struct{}), ends: make(chan struct{})}
				upstream := httptest.NewServer(backend)
				t.Cleanup(upstream.Close)
				folder := t.TempDir()
				address := startLogging(t, binary, folder, s, found[1], upstream.URL)
				list := sendLogged(t, address, backend)
				file := func(name string) []string { return []string{waitForLines(t, filepath.Join(folder, name), len(list))} }
				off := wantLogged(t, accesslog.ReaderOptions{Files: file("access.log")}, list)
				off += wantLogged(t, accesslog.ReaderOptions{Files: file("other.log"), Format: format}, list)
				assert.FatalIf(t, off != "" && tries == 10, "%s", off)
				return off != "", off
			})
		})
	}
}

// slowBackend answers a path at once, and /slow when it may.
type slowBackend struct {
	begun, ends chan struct{}

	mu         sync.Mutex
	came, went time.Time // of the last request
}

// ServeHTTP implements [http.Handler].
func (b *slowBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.came = time.Now()
	defer func() { b.went = time.Now() }()
	if r.URL.Path == "/slow" {
		b.begun <- struct{}{}
		<-b.ends
	}
	_, _ = io.WriteString(w, "hello")
}

// startLogging starts a server until the test ends, and returns its address.
func startLogging(t *testing.T, binary, folder string, s loggingServer, format, upstream string) (address string) {
	t.Helper()
	listener := assert.NoError(net.Listen("tcp", "127.0.0.1:0"))(t)
	address = listener.Addr().String()
	assert.Must(t, listener.Close())
	config := filepath.Join(folder, "config")
	assert.Must(t, os.Chmod(folder, 0o755)) //nolint:gosec // the server's user reads it
	assert.Must(t, os.WriteFile(config, fmt.Appendf(nil, s.config, folder, format, address, upstream, s.other), 0o600))
	command := exec.Command(binary, s.args(config)...)
	assert.Must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill() // it may be gone already
		_ = command.Wait()         // it was killed
	})
	assert.WaitFor(t, s.program+" listens", func() error {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	})
	return address
}

// logged is a request that was sent.
type logged struct {
	method, uri, agent string
	began, ended       time.Time // at the client
	came, went         time.Time // at the backend
}

// sendLogged sends requests one after the other, of which one is slow, and returns them.
func sendLogged(t *testing.T, address string, backend *slowBackend) (list []*logged) {
	t.Helper()
	for _, r := range []*logged{
		{method: "GET", uri: "/a?b=c&d=%22", agent: "test/1.0"},
		{method: "HEAD", uri: "/b", agent: `x" 200 5 "y`},
		{method: "GET", uri: "/slow", agent: `","client_ip":"192.0.2.9`},
		{method: "POST", uri: "/c", agent: `[01/Jan/2020:00:00:00 +0000] "GET /forged HTTP/1.1" 200 5`},
	} {
		request := assert.NoError(http.NewRequestWithContext(t.Context(), r.method, "http://"+address+r.uri, http.NoBody))(t)
		request.Host, request.Close = "site.example", true
		request.Header.Set("User-Agent", r.agent)
		r.began = time.Now()
		if r.uri == "/slow" {
			go func() {
				<-backend.begun
				time.AfterFunc(300*time.Millisecond, func() { close(backend.ends) })
			}()
		}
		response := assert.NoError(http.DefaultClient.Do(request))(t)
		_, _ = io.Copy(io.Discard, response.Body)
		assert.Must(t, response.Body.Close())
		r.ended = time.Now()
		backend.mu.Lock()
		r.came, r.went = backend.came, backend.went
		backend.mu.Unlock()
		list = append(list, r)
	}
	return list
}

// waitForLines waits until a log has so many lines, and returns its path.
func waitForLines(t *testing.T, path string, lines int) string {
	t.Helper()
	assert.WaitFor(t, filepath.Base(path)+" has all lines", func() error {
		text, err := os.ReadFile(path)
		if got := strings.Count(string(text), "\n"); err == nil && got < lines {
			err = fmt.Errorf("%d of %d lines", got, lines)
		}
		return err
	})
	return path
}

// wantLogged compares a log with the requests, and returns which times are off.
func wantLogged(t *testing.T, o accesslog.ReaderOptions, list []*logged) (off string) {
	t.Helper()
	reader := assert.NoError(accesslog.Open(o))(t)
	t.Cleanup(func() { _ = reader.Close() })
	const precision = 60 * time.Millisecond // nginx logs milliseconds of a clock that it looks at now and then
	for _, want := range list {
		e, err := reader.Next()
		assert.FatalIf(t, err != nil, "%s: %v, %+v", want.uri, err, reader.Summary().Skipped)
		began, ended := time.UnixMicro(e.Time), time.UnixMicro(e.Ends)
		if began.Before(want.began.Add(-precision)) || ended.After(want.ended.Add(precision)) ||
			began.After(want.came.Add(precision)) || ended.Before(want.went.Add(-precision)) {
			off += fmt.Sprintf("%s from %v to %v, want %v to %v, and the backend's %v to %v within\n",
				want.uri, began, ended, want.began, want.ended, want.came, want.went)
		}
		got := logged{method: e.Method, uri: e.URI, agent: e.Header.Get("User-Agent")}
		assert.ErrorIf(t, got != logged{method: want.method, uri: want.uri, agent: want.agent}, "got %+v, want %+v", got, *want)
		assert.ErrorIf(t, e.Client != "127.0.0.1" || e.Status != http.StatusOK, "client %s, status %d", e.Client, e.Status)
	}
	s := reader.Summary()
	assert.ErrorIf(t, s.Total().Malformed > 0, "%+v", s.Skipped)
	return off
}
