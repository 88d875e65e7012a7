package redistest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// Toxiproxy is a running toxiproxy-server with one proxy. It forwards all data until it has toxics. Unlike [Proxy]
// it is a tool that other projects test with.
type Toxiproxy struct {
	Addr string // 127.0.0.1:port of the proxy

	api string
}

// Toxic is a fault that a proxy adds to a connection. Its types and attributes are those of https://github.com/Shopify/toxiproxy#toxics.
type Toxic struct {
	Type       string         `json:"type"`
	Stream     string         `json:"stream"`     // "upstream": requests; "downstream": replies
	Attributes map[string]int `json:"attributes"` // times in milliseconds
}

// StartToxiproxy starts a toxiproxy-server, by its binary, in front of a server. The test's end stops it.
func StartToxiproxy(t testing.TB, binary, target string) *Toxiproxy {
	t.Helper()
	host, port, err := net.SplitHostPort(FreeAddr(t))
	assert.Must(t, err)
	printed := &output{}
	command := exec.Command(binary, "-host", host, "-port", port)
	command.Stdout, command.Stderr = printed, printed
	assert.Must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill() // it may be gone already
		_ = command.Wait()         // it was killed
	})
	p := &Toxiproxy{Addr: FreeAddr(t), api: "http://" + net.JoinHostPort(host, port)}
	assert.WaitFor(t, "toxiproxy answers", func() error { return p.ask(http.MethodGet, "/version", nil) })
	proxy := map[string]any{"name": "redis", "listen": p.Addr, "upstream": target, "enabled": true}
	if err := p.ask(http.MethodPost, "/proxies", proxy); err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	return p
}

// Poison adds a toxic, also to open connections. There is at most one of each type.
func (p *Toxiproxy) Poison(t testing.TB, toxic Toxic) {
	t.Helper()
	assert.Must(t, p.ask(http.MethodPost, "/proxies/redis/toxics", toxic))
}

// Cure removes all toxics.
func (p *Toxiproxy) Cure(t testing.TB) {
	t.Helper()
	assert.Must(t, p.ask(http.MethodPost, "/reset", nil))
}

// ask sends a request to the API.
func (p *Toxiproxy) ask(method, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(method, p.api+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Close = true // leaves no connection to the killed process
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return err
}
