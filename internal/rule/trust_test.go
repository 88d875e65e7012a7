package rule

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// trustingServer returns a server of Caddy with options in JSON.
func trustingServer(t *testing.T, options string) *caddyhttp.Server {
	t.Helper()
	app := json.RawMessage(`{"servers":{"srv0":{` + options + `}}}`)
	ctx := assert.NoError(caddy.ProvisionContext(&caddy.Config{AppsRaw: caddy.ModuleMap{"http": app}}))(t)
	web, ok := assert.NoError(ctx.App("http"))(t).(*caddyhttp.App)
	assert.FatalIf(t, !ok, "the app http is no app of Caddy's")
	return web.Servers["srv0"]
}

const trustsFront = `"trusted_proxies":{"source":"static","ranges":["127.0.0.1"]}`

// TestTrustedSource holds that Caddy still keeps the source where it is looked for.
func TestTrustedSource(t *testing.T) {
	for options, want := range map[string]string{trustsFront: "http.ip_sources.static", `"trusted_proxies_unix":true`: "", "": ""} {
		assert.Equal(t, TrustedSource(trustingServer(t, options)), want, "the source of a server with %s", options)
	}
}

const (
	client    = "198.51.100.7" // of ordinary requests, by the network
	cdn       = "198.51.100.200"
	forged    = "203.0.113.66"
	frontPeer = "127.0.0.1:4711"
)

// fronts are real proxies as they were measured: what they pass on of a header, and the client's or the CDN's address.
var fronts = map[string]struct {
	appends bool // to what clients write, and nothing before Caddy removes it
	pass    func(sent []string, peer string) []string
	viaCDN  bool // which overwrites the header, and is not trusted
}{
	"nginx $proxy_add_x_forwarded_for":     {true, appendToLine, false},
	"nginx, with realip too":               {true, appendToLine, false},
	"haproxy option forwardfor":            {true, func(sent []string, peer string) []string { return append(slices.Clone(sent), peer) }, false},
	"Apache mod_proxy":                     {true, appendToLine, false},
	"nginx $remote_addr":                   {false, overwrite, false},
	"nginx, realip of a CDN, $remote_addr": {false, overwrite, false},
	"haproxy set-header":                   {false, overwrite, false},
	"Caddy":                                {false, overwrite, false},
	"nginx without the header":             {false, func(sent []string, _ string) []string { return sent }, false},
	"haproxy forwardfor if-none":           {false, appendIfNone, false},
	"append, behind a CDN that overwrites": {false, appendToLine, true},
}

func appendToLine(sent []string, peer string) []string {
	return []string{strings.Join(append(slices.Clone(sent), peer), ", ")}
}

func overwrite(_ []string, peer string) []string { return []string{peer} }

func appendIfNone(sent []string, peer string) []string {
	if len(sent) > 0 {
		return sent
	}
	return []string{peer}
}

// arrives returns a request as it comes to a server through a front, from a client with a header.
func arrives(server *caddyhttp.Server, front string, sent ...string) *http.Request {
	f, peer := fronts[front], client
	if f.viaCDN {
		sent, peer = []string{client}, cdn
	}
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	if lines := f.pass(sent, peer); len(lines) > 0 {
		r.Header["X-Forwarded-For"] = lines
	}
	r.RemoteAddr = frontPeer
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), server)
}

// TestForwardedWatch_writable plays scenes behind each front. It is told of the four that append to what clients write, at the
// first forged request of a usual scene, and of nothing else.
func TestForwardedWatch_writable(t *testing.T) {
	server := trustingServer(t, trustsFront)
	ordinary := func(n int) []string { return slices.Repeat([]string{""}, n) }
	for scene, test := range map[string]struct {
		sent []string // headers of clients, in this order; empty: none
		told bool     // of the fronts that append
	}{
		"ordinary requests":               {ordinary(500), false},
		"a forged one after 120":          {append(ordinary(120), forged), true},
		"a company's proxy":               {[]string{"10.1.2.3"}, true},
		"probes of five beside 120":       {append(ordinary(120), "", "", "", "", "", forged), true},
		"forged from the first on, often": {slices.Repeat(append(ordinary(3), forged), 200), false},
	} {
		for front, f := range fronts {
			var found []string
			watch := ForwardedWatch{OnUnbelieved: func() {}, OnWritable: func(w *WritableAddress) { found = append(found, w.String()) }}
			for _, header := range test.sent {
				var sent []string
				if header != "" {
					sent = []string{header}
				}
				watch.Look(arrives(server, front, sent...))
			}
			want := test.told && f.appends
			assert.ErrorIf(t, (len(found) == 1) != want || len(found) > 1, "%s behind %s: told %q, want it told: %v", scene, front, found, want)
		}
	}
}

// TestForwardedWatch_writable_options has options with which the address is right, or another header gives it.
func TestForwardedWatch_writable_options(t *testing.T) {
	for options, want := range map[string]int{
		trustsFront: 1,
		trustsFront + `,"trusted_proxies_strict":1`:                                      0,
		trustsFront + `,"client_ip_headers":["X-Real-Ip","X-Forwarded-For"]`:             1,
		trustsFront + `,"client_ip_headers":["Cf-Connecting-Ip"]`:                        0,
		`"trusted_proxies":{"source":"static","ranges":["127.0.0.1","198.51.100.0/24"]}`: 0, // the last ones are proxies all
		`"trusted_proxies":{"source":"static","ranges":["192.0.2.1"]}`:                   0,
		"": 0,
	} {
		server := trustingServer(t, options)
		told := 0
		watch := ForwardedWatch{OnUnbelieved: func() {}, OnWritable: func(*WritableAddress) { told++ }}
		for range 120 {
			watch.Look(arrives(server, "Apache mod_proxy"))
		}
		watch.Look(arrives(server, "Apache mod_proxy", forged))
		assert.Equal(t, told, want, "how often it is told with %s", options)
	}
}

// TestForwardedWatch_writable_bounds has a header of thousands of trusted addresses, of which few are looked at, and the end of
// the count.
func TestForwardedWatch_writable_bounds(t *testing.T) {
	server := trustingServer(t, trustsFront)
	many := strings.Repeat("127.0.0.1,", 5000)
	assert.ErrorIf(t, lastUntrusted([]string{forged + "," + many}, server).IsValid(), "all addresses are looked at")
	assert.Equal(t, fmt.Sprint(lastUntrusted([]string{forged + ", 127.0.0.1:80,x,", "127.0.0.1"}, server)), forged, "the last one")
	watch := believedWatch{}
	for range countedRequests + 100 {
		watch.look(arrives(server, "Apache mod_proxy"), server)
	}
	assert.Equal(t, watch.single.Load(), countedRequests, "the requests that are counted")
	found := watch.look(arrives(server, "Apache mod_proxy", forged), server)
	assert.FatalIf(t, found == nil, "nothing is told behind the count")
	assert.Equal(t, found.String(), "requests count by addresses that clients may write: 127.0.0.1 passed on several, of which the first counts. "+
		"Add trusted_proxies_strict; if the last one is that of a proxy of yours, such as a CDN, add it to trusted_proxies first", "the text")
}
