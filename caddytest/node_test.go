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

// config makes a whole Caddyfile of global options and one site, on the ports that [start] gives.
func config(global, site string) string {
	return "{\n\tadmin {$ADMIN}\n\tauto_https off\n\tdefault_bind 127.0.0.1\n\tgrace_period 1s\n\tlog {\n\t\tlevel DEBUG\n\t}\n" +
		global + "\n}\n\n:{$PORT} {\n" + site + "\n}\n"
}

// quietly makes a configuration of [config] log no denials, which a flood of them would wait for.
func quietly(text string) string { return strings.Replace(text, "level DEBUG", "level INFO", 1) }

// tell ends a site: every answer's body is the decision and its source.
const tell = `
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

// run starts the process and waits until it serves. It is false where somebody took its ports.
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
		_ = n.command.Wait() // ended by stop: no news
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

// stop asks Caddy to stop and waits until it is gone. Where it does not go it is killed.
func (n *node) stop(t testing.TB) {
	t.Helper()
	n.client.CloseIdleConnections()
	_ = n.command.Process.Signal(syscall.SIGTERM) // gone already: fine
	select {
	case <-n.exited:
	case <-time.After(15 * time.Second):
		t.Error("Caddy does not stop when asked to")
		_ = n.command.Process.Kill()
		<-n.exited
	}
	for _, word := range []string{"panic", "DATA RACE"} { // the second where CADDY_BINARY looks for races
		if strings.Contains(n.log.String(), word) {
			t.Errorf("Caddy's log tells of a %s:\n%s", word, n.log)
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

// answer is a response that was read.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

// String shows an answer in a test's complaint.
func (a answer) String() string {
	return fmt.Sprintf("status %d, body %q, headers %v, after %v", a.status, a.body, a.header, a.took)
}

// deniedByRedis tells whether Redis denied the request, now or when it was last asked.
func (a answer) deniedByRedis() bool {
	return a.body == "denied redis" || a.body == "denied deny_cache"
}

// get asks for a path of the site. Headers are written as in HTTP: "Name: value".
func (n *node) get(t testing.TB, path string, headers ...string) answer {
	t.Helper()
	return n.send(t, http.MethodGet, n.URL+path, "", headers...)
}

// send sends a request, which must be answered. It tries again where a reload just closed the
// socket in whose queue the connection stood, so that nobody read the request.
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

// try sends a request. Unlike the others it may be called by any goroutine.
func (n *node) try(method, url, body string, headers ...string) (answer, error) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	r.Close = strings.HasPrefix(url, n.Admin) // whose server is another one after each reload
	begin := time.Now()
	response, err := n.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(text), time.Since(begin)}, err
}

// load asks Caddy to go on with another Caddyfile.
func (n *node) load(t testing.TB, text string) answer {
	t.Helper()
	return n.send(t, http.MethodPost, n.Admin+"/load", text, "Content-Type: text/caddyfile")
}

// reload goes on with another Caddyfile, which must be right.
func (n *node) reload(t testing.TB, text string) {
	t.Helper()
	if a := n.load(t, text); a.status != http.StatusOK {
		t.Fatalf("the reload failed: %v", a)
	}
	n.client.CloseIdleConnections() // a connection from before may still be served by the old configuration
}
