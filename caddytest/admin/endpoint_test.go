package admin

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// data opens a page without a browser, and returns what it answers to its script.
func data(t *testing.T, n *caddytest.Node, page *caddytest.LivePage) caddytest.Response {
	t.Helper()
	opening := n.Send(t, http.MethodGet, page.URL, "")
	_, key, _ := strings.Cut(opening.Body, "/#")
	assert.FatalIf(t, opening.Status != http.StatusOK || len(key) < 32, "the address answers %v", opening)
	cookie, _, _ := strings.Cut(opening.Header.Get("Set-Cookie"), ";")
	return n.Send(t, http.MethodGet, page.Origin+"/data", "", "Cookie: "+cookie, "Page-Key: "+key[:32])
}

// TestPage_remote asks a remote admin endpoint, with a certificate that it allows, with another one, and with none.
func TestPage_remote(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", site))
	client := redistest.NewAuthority(t)
	certificate, key := client.Issue(t, "me")
	block, _ := pem.Decode(assert.NoError(os.ReadFile(certificate))(t))
	_, port, _ := strings.Cut(redistest.FreeAddr(t), ":")
	remote := "localhost:" + port
	config := fmt.Sprintf(`{"admin":{"listen":%q,"identity":{"identifiers":["localhost"],"issuers":[{"module":"internal"}]},
		"remote":{"listen":"127.0.0.1:%s","access_control":[{"public_keys":[%q],"permissions":[{"paths":["/redis_ratelimit/page"],"methods":["GET"]}]}]}},
		"apps":{"pki":{"certificate_authorities":{"local":{"install_trust":false}}},"http":{"servers":{"s":{"listen":[%q],"automatic_https":{"disable":true},
		"routes":[{"handle":[{"handler":"redis_ratelimit","policies":[{"name":"remote","limit":5,"window":"1m"}]}]}]}}}}}`,
		strings.TrimPrefix(n.Admin, "http://"), port, base64.StdEncoding.EncodeToString(block.Bytes), strings.TrimPrefix(n.URL, "http://"))
	a := n.Load(t, config, "Content-Type: application/json")
	assert.FatalIf(t, a.Status != http.StatusOK, "the configuration is refused: %v", a)
	var authority struct {
		Root string `json:"root_certificate"`
	}
	assert.Must(t, json.Unmarshal([]byte(n.Send(t, http.MethodGet, n.Admin+"/pki/ca/local", "").Body), &authority))
	root := filepath.Join(t.TempDir(), "root.pem")
	assert.Must(t, os.WriteFile(root, []byte(authority.Root), 0o600))

	secure := []string{"--client-cert", certificate, "--client-key", key, "--ca", root}
	assert.Retry(t, "the endpoint has its certificate", func() (again bool, seen any) {
		a = data(t, n, caddytest.StartPage(t, remote, secure...))
		return a.Status != http.StatusOK || !strings.Contains(a.Body, `"name":"remote"`), a
	})
	otherCertificate, otherKey := client.Issue(t, "another")
	for what, args := range map[string][]string{
		"another certificate": {"--client-cert", otherCertificate, "--client-key", otherKey, "--ca", root}, "no authority": secure[:4], "no certificate": nil,
	} {
		a = data(t, n, caddytest.StartPage(t, remote, args...))
		assert.ErrorIf(t, a.Status != http.StatusBadGateway || !strings.Contains(a.Body, `{"error":"`), "with %s: %v", what, a)
	}
}

// TestPage_socket asks an admin endpoint at a unix socket.
func TestPage_socket(t *testing.T) {
	t.Parallel()
	socket := "unix/" + filepath.Join(t.TempDir(), "admin.sock")
	n := caddytest.Start(t, strings.Replace(caddytest.Config("", site), "admin {$ADMIN}", "admin "+socket+"|0600", 1))
	a := data(t, n, caddytest.StartPage(t, socket))
	assert.ErrorIf(t, a.Status != http.StatusOK || !strings.Contains(a.Body, `"name":"login"`), "the answer is %v", a)
}

// TestPage_flags refuses flags that cannot be meant.
func TestPage_flags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--listen", "0.0.0.0:0"}, "--listen 0.0.0.0:0: use an address of this machine alone, such as 127.0.0.1:9000; to look from elsewhere, forward the port with ssh -L"},
		{[]string{"--listen", "[::]:0"}, "use an address of this machine alone"},
		{[]string{"--listen", "example.com:80"}, "use an address of this machine alone"},
		{[]string{"--listen", "127.0.0.1"}, "use an address of this machine alone"},
		{[]string{"--listen", "127.0.0.1:x"}, "--listen 127.0.0.1:x: "},
		{[]string{"--client-cert", "a"}, "--client-cert and --client-key belong together"},
		{[]string{"--ca", "a"}, "--ca is for remote admin endpoints"},
		{[]string{"--client-cert", "a", "--client-key", "a"}, "are no certificate with its key in PEM"},
		{[]string{"--address", "localhost:1-2"}, "the admin address localhost:1-2 is none"},
	} {
		args := append([]string{"page"}, c.args...)
		if c.args[0] != "--address" {
			args = append(args, "--address", "localhost:1")
		}
		caddytest.RunRatelimit(t, nil, args...).Want(t, 1, c.says)
	}
}

// TestPage_since asks the admin endpoint itself: again, with a token of another process, and after a request.
func TestPage_since(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option, site))
		get := func(since string) (next string, a caddytest.Response) {
			a = n.Ask(t, http.MethodGet, "page?since="+since, "")
			return caddytest.ParseJSON[struct{ Next string }](t, a).Next, a
		}
		next, a := get("")
		a.Want(t, http.StatusOK, `*"full":true*"name":"login","about":{"sentence":"2 requests per day*"counts":*"met":0,*`)
		next, a = get(next)
		a.Want(t, http.StatusOK, `*"full":false*"policies":[]}`+"\n")
		n.Get(t, "/login?k=a")
		_, a = get(next)
		a.Want(t, http.StatusOK, `*"full":false*"policies":[{"name":"login","counts":{*"met":1,*}}]}`+"\n")
		_, a = get("other" + next)
		a.Want(t, http.StatusOK, `*"full":true*`)
		n.Ask(t, http.MethodPost, "page", "").Want(t, http.StatusMethodNotAllowed, caddytest.Any)
	})
}
