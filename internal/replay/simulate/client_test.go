package simulate_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
)

// trustedSite trusts proxies by options of servers.
func trustedSite(options string) string {
	return "{\n\tadmin off\n\tservers {\n\t\t" + options + "\n\t}\n}\n" + nasaSite("5 10s", "sliding_window_log")
}

// TestReplay_reads_clients_as_Caddy_does compares with what a server of the same configuration makes of the same requests.
func TestReplay_reads_clients_as_Caddy_does(t *testing.T) {
	random := rand.New(rand.NewPCG(61, 3))
	values := []string{"9.9.9.9", "10.1.1.1", "2001:db8::1", "8.8.8.8:80", "[2001:db8::2]:443", " 7.7.7.7 ", "fe80::1%eth0", "unknown", "", "\"><script>", "10.0.0.300"}
	for _, options := range []string{
		"trusted_proxies static 10.0.0.0/8 ::1",
		"trusted_proxies static 10.0.0.0/8 ::1\n\t\ttrusted_proxies_strict",
		"trusted_proxies static private_ranges\n\t\tclient_ip_headers X-Real-IP X-Forwarded-For",
		"trusted_proxies static private_ranges\n\t\tclient_ip_headers X-Real-IP X-Forwarded-For\n\t\ttrusted_proxies_strict",
	} {
		server := provisionedServer(t, trustedSite(options))
		var log strings.Builder
		var want []string
		for i := range assert.Rounds(200, 5000) {
			remote := []string{"10.0.0.1", "1.1.1.1", "::1", "192.168.0.1"}[random.IntN(4)]
			request := httptest.NewRequest(http.MethodGet, "/", nil)
			request.RemoteAddr = net.JoinHostPort(remote, "99")
			for _, name := range []string{"X-Forwarded-For", "X-Real-Ip"} {
				var list []string
				for range random.IntN(4) {
					list = append(list, values[random.IntN(len(values))])
				}
				if len(list) > 0 {
					request.Header.Add(name, strings.Join(list, ","))
				}
			}
			prepared := caddyhttp.PrepareRequest(request, caddy.NewReplacer(), httptest.NewRecorder(), server)
			client, _ := caddyhttp.GetVar(prepared.Context(), caddyhttp.ClientIPVarKey).(string)
			headers := assert.NoError(json.Marshal(request.Header))(t)
			if len(request.Header) == 0 {
				client = "203.0.113.9" // that of the log stays
			}
			if names := server.ClientIPHeaders; len(names) == 1 && request.Header.Get(names[0]) == "" && len(request.Header.Values(names[0])) == 0 {
				client = "203.0.113.9"
			}
			want = append(want, client)
			fmt.Fprintf(&log, `{"ts":%d.5,"request":{"remote_ip":%q,"client_ip":"203.0.113.9","method":"GET","uri":"/","host":"a","headers":%s},"size":1,"status":200}`+"\n",
				1_750_000_000+i, remote, headers)
		}
		recorded := &recorder{Simulation: simulateCaddyfile(t, trustedSite(options))}
		playOn(t, recorded.Simulation, recorded, accesslog.ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(log.String())}, replay.RunOptions{})
		assert.FatalIf(t, len(recorded.played) != len(want), "%d of %d requests", len(recorded.played), len(want))
		lines := strings.Split(log.String(), "\n")
		for i := range want {
			assert.ErrorIf(t, recorded.played[i].client != want[i], "%s: client %s, want %s, of %s", options, recorded.played[i].client, want[i], lines[i])
		}
	}
}

// provisionedServer sets a server up that is not started.
func provisionedServer(t *testing.T, caddyfile string) *caddyhttp.Server {
	t.Helper()
	var config caddy.Config
	assert.Must(t, json.Unmarshal(adapt(t, caddyfile), &config))
	ctx := assert.NoError(caddy.ProvisionContext(&config))(t)
	app, ok := assert.NoError(ctx.App("http"))(t).(*caddyhttp.App)
	assert.FatalIf(t, !ok || app.Servers["srv0"] == nil, "no server")
	return app.Servers["srv0"]
}

// limiterIn returns the first limiter in a server's routes.
func limiterIn(t *testing.T, server *caddyhttp.Server) *gate.Limiter {
	t.Helper()
	for limiting := range routetrace.NewTree(server).Limiters() {
		return limiting.RateLimiter()
	}
	t.Fatal("no limiter")
	return nil
}

// TestReplay_reads_clients_behind_proxies reads logs of other servers, which may have the peer and X-Forwarded-For.
func TestReplay_reads_clients_behind_proxies(t *testing.T) {
	const combined = `%s - - [15/Jun/2025:15:06:4%d +0000] "GET / HTTP/1.1" 200 5 "-" "x"%s` + "\n"
	main := fmt.Sprintf(combined, "10.0.0.1", 0, ` "9.9.9.9, 10.0.0.2"`) + fmt.Sprintf(combined, "1.1.1.1", 1, ` "9.9.9.9"`) + fmt.Sprintf(combined, "10.0.0.1", 2, ` "-"`)
	for _, tt := range []struct{ options, log, want string }{
		{"trusted_proxies static 10.0.0.0/8", main, "9.9.9.9 1.1.1.1 10.0.0.1"},
		{"trusted_proxies static 10.0.0.0/8\n\t\ttrusted_proxies_strict", main, "9.9.9.9 1.1.1.1 10.0.0.1"},
		{"protocols h1", main, "10.0.0.1 1.1.1.1 10.0.0.1"},
		{"trusted_proxies static 10.0.0.0/8", fmt.Sprintf(combined, "9.9.9.9, 8.8.8.8", 0, "") + fmt.Sprintf(combined, "7.7.7.7", 1, ""), "8.8.8.8 7.7.7.7"},
		{"trusted_proxies static 10.0.0.0/8", fmt.Sprintf(combined, "9.9.9.9 10.0.0.1", 0, "") + fmt.Sprintf(combined, "- 1.1.1.1", 1, ""), "9.9.9.9 1.1.1.1"},
	} {
		recorded := &recorder{Simulation: simulateCaddyfile(t, trustedSite(tt.options))}
		result := playOn(t, recorded.Simulation, recorded, accesslog.ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(tt.log)}, replay.RunOptions{})
		var got []string
		for _, p := range recorded.played {
			got = append(got, p.client)
		}
		assert.Equal(t, strings.Join(got, " "), tt.want, "%s: %s", tt.options, tt.log)
		says := strings.Contains(strings.Join(result.Warnings, "\n"), "1 request without the peer of the connection in the line")
		assert.Equal(t, says, strings.HasPrefix(tt.want, "8"), "a warning of %s in %q", tt.log, result.Warnings)
	}
}

// TestReplay_counts_hosts_of_absolute_URLs has two limited sites, and logs that name them.
func TestReplay_counts_hosts_of_absolute_URLs(t *testing.T) {
	const site = "http://%s.example:8080 {\n\tredis_ratelimit {client_ip} 5 10s {\n\t\tname %[1]s\n\t}\n\trespond ok\n}\n"
	const line = `%s - - [15/Jun/2025:15:06:40 +0000] "GET %s HTTP/1.1" 200 5 "-" "x"` + "\n"
	for _, log := range []string{
		fmt.Sprintf(line, "1.1.1.1", "http://site.example/a"), fmt.Sprintf(line, "site.example:8080 1.1.1.1", "/a"), fmt.Sprintf(line, "1.1.1.1", "HTTP://x@site.example:8080"),
	} {
		result := play(t, fmt.Sprintf(site, "site")+fmt.Sprintf(site, "other"), accesslog.ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(log)})
		for _, p := range result.Policies {
			want := map[string]int64{"site": 1, "other": 0}[p.Name]
			assert.ErrorIf(t, p.Requests != want, "%s: %d requests met %s, want %d", log, p.Requests, p.Name, want)
		}
	}
}
