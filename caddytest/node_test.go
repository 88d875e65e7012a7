package caddytest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// node is a running Caddy.
type node struct {
	URL   string // of its site, without a slash at the end
	Admin string // of its admin API

	log     *logBuffer
	client  *http.Client
	command *exec.Cmd
	exited  chan struct{}
}

// config returns a Caddyfile of global options and one site, on the ports that [start] sets.
func config(global, site string) string {
	return "{\n\tadmin {$ADMIN}\n\tauto_https off\n\tdefault_bind 127.0.0.1\n\tgrace_period 1s\n\tlog {\n\t\tlevel DEBUG\n\t}\n" +
		global + "\n}\n\n:{$PORT} {\n" + site + "\n}\n"
}

// quietly turns off the log of denials in a Caddyfile of [config], which would slow a flood.
func quietly(text string) string { return strings.Replace(text, "level DEBUG", "level INFO", 1) }

// showDecision ends a site: every body is the decision and its source.
const showDecision = `
	respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.source}"
	handle_errors {
		respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.source}"
	}`

// start runs Caddy on a Caddyfile that uses {$PORT} and {$ADMIN}, until the test's end.
func start(t testing.TB, text string, env ...string) *node {
	t.Helper()
	path := writeCaddyfile(t, text)
	for range 3 {
		n := &node{log: new(logBuffer), client: newClient(), exited: make(chan struct{})}
		if n.run(t, path, env) {
			t.Cleanup(func() { n.stop(t) })
			return n
		}
	}
	t.Fatal("no free ports")
	return nil
}

// run starts the process and waits until it serves. It returns false where its ports are taken.
func (n *node) run(t testing.TB, path string, env []string) bool {
	t.Helper()
	site, admin := redistest.FreeAddr(t), redistest.FreeAddr(t)
	_, port, err := net.SplitHostPort(site)
	if err != nil {
		t.Fatal(err)
	}
	n.URL, n.Admin = "http://"+site, "http://"+admin
	n.command = exec.Command(binary(t), "run", "--config", path, "--adapter", "caddyfile")
	n.command.Env = environment(t, append(env, "PORT="+port, "ADMIN="+admin)...)
	n.command.Dir, n.command.Stdout, n.command.Stderr = t.TempDir(), n.log, n.log
	if err := n.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = n.command.Wait() // an error here is how stop ends it
		close(n.exited)
	}()
	taken := false
	redistest.WaitFor(t, "Caddy serves", func() error {
		select {
		case <-n.exited:
			if !strings.Contains(n.log.String(), "address already in use") {
				t.Fatalf("Caddy exited: %s", n.log)
			}
			taken = true
			return nil
		default:
		}
		if len(n.log.lines(func(l logLine) bool { return l.Message == "serving initial configuration" })) == 0 {
			return errors.New("it has not said so")
		}
		return nil
	})
	return !taken
}

// stop sends SIGTERM and waits until Caddy has exited. After a while it kills the process.
func (n *node) stop(t testing.TB) {
	t.Helper()
	n.client.CloseIdleConnections()
	_ = n.command.Process.Signal(syscall.SIGTERM) // it may have exited already
	select {
	case <-n.exited:
	case <-time.After(15 * time.Second):
		t.Error("Caddy does not stop when asked to")
		_ = n.command.Process.Kill()
		<-n.exited
	}
	for _, word := range []string{"panic", "DATA RACE"} { // the second where CADDY_BINARY has the race detector
		if strings.Contains(n.log.String(), word) {
			t.Errorf("Caddy's log has a %s:\n%s", word, n.log)
		}
	}
}

func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       30 * time.Second,
	}
}

// answer is a response with its body.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

// String formats an answer for a test's error.
func (a answer) String() string {
	return fmt.Sprintf("status %d, body %q, headers %v, after %v", a.status, a.body, a.header, a.took)
}

// deniedByRedis reports whether Redis denied the request, or the deny cache repeated a denial.
func (a answer) deniedByRedis() bool {
	return a.body == "denied redis" || a.body == "denied deny_cache"
}

// get requests a path of the site. Headers are written as in HTTP: "Name: value".
func (n *node) get(t testing.TB, path string, headers ...string) answer {
	t.Helper()
	return n.send(t, http.MethodGet, n.URL+path, "", headers...)
}

// send sends a request and fails without a response. It retries where a reload has closed the socket with
// the connection in its queue, because Caddy has not read the request then.
func (n *node) send(t testing.TB, method, url, body string, headers ...string) (a answer) {
	t.Helper()
	redistest.WaitFor(t, "Caddy takes connections", func() (err error) {
		a, err = n.try(method, url, body, headers...)
		if err != nil && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
			t.Fatalf("%v\n%s", err, n.log)
		}
		return err
	})
	return a
}

// try sends a request. Unlike get and send it may be called by any goroutine.
func (n *node) try(method, url, body string, headers ...string) (answer, error) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	r.Close = strings.HasPrefix(url, n.Admin) // each reload starts another admin server
	begin := time.Now()
	response, err := n.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(text), time.Since(begin)}, err
}

// load loads another Caddyfile.
func (n *node) load(t testing.TB, text string) answer {
	t.Helper()
	return n.send(t, http.MethodPost, n.Admin+"/load", text, "Content-Type: text/caddyfile")
}

// reload loads another Caddyfile and fails where Caddy refuses it.
func (n *node) reload(t testing.TB, text string) {
	t.Helper()
	if a := n.load(t, text); a.status != http.StatusOK {
		t.Fatalf("the reload failed: %v", a)
	}
	n.client.CloseIdleConnections() // the old configuration may still serve an earlier connection
}
