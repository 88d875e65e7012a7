package simulate_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/simulate"
)

// visitOf is a request as a log tells of it.
func visitOf(host string) *accesslog.Entry {
	return &accesslog.Entry{Time: 1, Client: "192.0.2.1", Method: "GET", Host: host, URI: "/", Proto: "HTTP/1.1", Status: 200}
}

// met are the names of the policies that a request meets.
func met(r *simulate.Simulation, e *accesslog.Entry) string {
	var names []string
	for _, d := range r.Play(e).Policies {
		names = append(names, r.Policies()[d.Policy].Name)
	}
	return strings.Join(names, " ")
}

// warns reports whether one of the warnings has all words.
func warns(r *simulate.Simulation, words ...string) bool {
	return slices.ContainsFunc(r.Warnings(), func(sentence string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(sentence, word) })
	})
}

// limitNamed is a directive.
func limitNamed(name string) string {
	return "redis_ratelimit {client_ip} 1000 1h {\n\tname " + name + "\n}\n"
}

func TestReplay_plays_a_request_at_the_server_of_its_port(t *testing.T) {
	const ports = "{\n\tauto_https off\n\thttp_port 8000\n\thttps_port 8443\n}\n"
	r := simulateCaddyfile(t, ports+"http://:8081 {\n"+limitNamed("a")+"}\nhttp://:8082 {\n"+limitNamed("b")+"}\n"+
		"http://:8083 {\n\trespond hi\n}\n:8443 {\n"+limitNamed("tls")+"}\n:8000 {\n"+limitNamed("plain")+"}\n")
	for _, test := range []struct {
		name, host string
		tls        bool
		want       string
	}{
		{"the first server's", "localhost:8081", false, "a"},
		{"another one's", "localhost:8082", false, "b"},
		{"of an address", "[::1]:8082", false, "b"},
		{"a server without limits", "localhost:8083", false, ""},
		{"a port that no server has", "localhost:9999", false, "plain"},
		{"none, encrypted", "localhost", true, "tls"},
		{"none, plain", "localhost", false, "plain"},
		{"none, plain, of an address", "[::1]", false, "plain"},
		{"not told", "", false, "plain"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := visitOf(test.host)
			e.TLS = test.tls
			assert.Equal(t, met(r, e), test.want, "what it meets")
		})
	}
}

func TestReplay_knows_encrypted_requests_by_the_log(t *testing.T) {
	r := simulateCaddyfile(t, "{\n\tauto_https off\n}\n:8080 {\n\t@tls protocol https\n\tredis_ratelimit @tls {scheme}-{http.request.tls.server_name} 5 1m\n}\n")
	e := visitOf("example.com:8080")
	for _, tls := range []bool{true, false, true} {
		e.TLS = tls
		v := r.Play(e)
		assert.ErrorIf(t, (v.Outcome == limiter.OutcomeAllowed) != tls || tls && v.Policies[0].Key != "https-example.com", "TLS %t: %+v", tls, v)
	}
}

// TestReplay_keeps_what_Caddy_notes_of_requests has keys of notes that are made before the first handler.
func TestReplay_keeps_what_Caddy_notes_of_requests(t *testing.T) {
	for _, key := range []string{"{http.request.duration}", "{http.request.duration_ms}", "{http.request.uuid}"} {
		t.Run(key, func(t *testing.T) {
			r := simulateCaddyfile(t, ":8080 {\n\tredis_ratelimit "+key+" 5 1m\n}\n")
			for range 2 {
				v := r.Play(visitOf("example.com:8080"))
				assert.ErrorIf(t, v.Outcome != limiter.OutcomeAllowed || v.Policies[0].EmptyKey, "%+v", v)
			}
		})
	}
}

// TestReplay_drops_headers_as_Caddy_does has a log with header fields that did not come to the routes.
func TestReplay_drops_headers_as_Caddy_does(t *testing.T) {
	site := ":8081 {\n\tredis_ratelimit {header.X_Api_Key} 1000 1h {\n\t\ton_empty_key skip\n\t\tname a\n\t}\n}\n"
	for global, want := range map[string]bool{"": false, "{\n\tservers {\n\t\texpected_underscore_headers x_api_*\n\t}\n}\n": true} {
		r := simulateCaddyfile(t, global+site)
		e := visitOf("localhost:8081")
		e.Header = http.Header{"X_api_key": {"secret"}}
		played := r.Play(e).Policies
		assert.ErrorIf(t, len(played) != 1 || played[0].EmptyKey == want, "with %q: %+v, want a key: %v", global, played, want)
		assert.Equal(t, len(e.Header), 1, "the fields of the entry")
	}
}

func TestReplay_gives_requests_the_only_host_of_the_limits(t *testing.T) {
	const plain = "http://plain.test {\n\trespond ok\n}\n"
	site := func(hosts string) string { return hosts + " {\n" + limitNamed("p") + "}\n" }
	for _, test := range []struct {
		name, caddyfile, host string
		meets                 bool
		warning               string
	}{
		{"only one", site("one.test") + plain, "", true, "played as for one.test"},
		{"named", site("one.test"), "one.test", true, ""},
		{"named wrongly", site("one.test"), "two.test", false, ""},
		{"named with a port", site("one.test:8443") + site(":8444"), "one.test:8443", true, ""},
		{"several", site("one.test, two.test"), "", false, "one.test"},
		{"a wildcard", site("*.one.test"), "", false, "*.one.test"},
		{"one beside a site for all", site("http://one.test:81") + site(":8080"), "", true, ""},
		{"in the policy", ":80 {\n\tredis_ratelimit {\n\t\tlimit 1\n\t\twindow 1h\n\t\tmatch {\n\t\t\thost one.test\n\t\t}\n\t}\n}\n", "", true, "played as for one.test"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := simulateCaddyfile(t, test.caddyfile)
			if test.host != "" {
				r.SetHost(test.host)
			}
			if got := met(r, visitOf("")); (got != "") != test.meets {
				t.Errorf("met %q", got)
			}
			if got := r.Warnings(); test.warning == "" && len(got) > 0 || test.warning != "" && !warns(r, "--host", test.warning) {
				t.Errorf("warnings: %q, want one of %q", got, test.warning)
			}
		})
	}
}

// TestReplay_looks_for_no_files has a site whose files are on this machine.
func TestReplay_looks_for_no_files(t *testing.T) {
	folder := t.TempDir()
	assert.Must(t, os.WriteFile(filepath.Join(folder, "there.txt"), nil, 0o600))
	for name, way := range map[string]string{
		"matcher":         "@there file /there.txt\n\tredis_ratelimit @there {client_ip} 1 1h",
		"not":             "@there not not file /there.txt\n\tredis_ratelimit @there {client_ip} 1 1h",
		"expression":      "@there `file('/there.txt')`\n\tredis_ratelimit @there {client_ip} 1 1h",
		"try_files":       "try_files /there.txt\n\t@there path /there.txt\n\tredis_ratelimit @there {client_ip} 1 1h",
		"try_files, glob": "try_files /*.txt\n\t@there path /there.txt\n\tredis_ratelimit @there {client_ip} 1 1h",
		"policy":          "redis_ratelimit {\n\t\tlimit 1\n\t\twindow 1h\n\t\tmatch {\n\t\t\tfile /there.txt\n\t\t}\n\t}",
		"named":           "fs other\n\t@there file /there.txt\n\tredis_ratelimit @there {client_ip} 1 1h",
	} {
		t.Run(name, func(t *testing.T) {
			config := bytes.Replace(adapt(t, ":8080 {\n\troot * "+folder+"\n\t"+way+"\n}\n"), []byte(`"apps":{`), []byte(`"apps":{"caddy.filesystems":{"filesystems":[{"name":"other","file_system":{"backend":"none"}}]},`), 1)
			r := assert.NoError(simulate.New(config, ""))(t)
			defer r.Close()
			v := r.Play(visitOf("h"))
			assert.ErrorIf(t, v.Outcome != limiter.OutcomeUnlimited, "%+v", v)
			assert.ErrorIf(t, !warns(r, "files"), "warnings: %q", r.Warnings())
		})
	}
}

func TestReplay_warns_of_redacted_values(t *testing.T) {
	limit := func(key string) string { return "redis_ratelimit " + key + " 10 1m\n" }
	for _, test := range []struct {
		name, site, only string
		warning          []string
	}{
		{"in a var", "vars tenant {header.Authorization}\n" + limit("{vars.tenant}"), "", []string{"{http.vars.tenant}", "redacted"}},
		{"in a map", "map {header.Authorization} {my.tenant} {\n\tdefault \"{header.Authorization}\"\n}\n" + limit("{my.tenant}"), "", []string{"{my.tenant}", "redacted"}},
		{"in a long key", "vars tenant {header.Authorization}\n" + limit("A{uri}{vars.tenant}"), "", []string{"redacted"}},
		{"in a matcher", "@paid header Authorization Bearer*\nredis_ratelimit @paid {client_ip} 5 1m\n", "", []string{"Authorization", "matcher"}},
		{"in a negated matcher", "@paid not header_regexp Authorization ^Bearer\nredis_ratelimit @paid {client_ip} 5 1m\n", "", []string{"Authorization", "matcher"}},
		{"in an expression", "@paid `{header.Authorization}.startsWith('Bearer')`\nredis_ratelimit @paid {client_ip} 5 1m\n", "", []string{"Authorization", "matcher"}},
		{"where only its presence counts", "@paid header Authorization *\nredis_ratelimit @paid {client_ip} 5 1m\n", "", nil},
		{"in the key of another policy", "vars tenant {header.Authorization}\nredis_ratelimit {\n\tpolicy a {\n\t\tkey {vars.tenant}\n\t\tlimit 1\n\t\twindow 1h\n\t}\n\tpolicy b {\n\t\tlimit 9\n\t\twindow 1h\n\t}\n}\n", "b", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := simulateOnly(t, ":8080 {\n"+test.site+"}\n", test.only)
			e := visitOf("h")
			e.URI, e.Header = "/"+strings.Repeat("long", 50), http.Header{"Authorization": {"REDACTED"}}
			r.Play(e)
			if got := r.Warnings(); len(test.warning) == 0 && len(got) > 0 || len(test.warning) > 0 && !warns(r, test.warning...) {
				t.Errorf("warnings: %q, want one of %q", got, test.warning)
			}
		})
	}
}

func TestSimulation_local_address(t *testing.T) {
	r := simulateCaddyfile(t, "http://127.0.0.1:8080 {\n\tredis_ratelimit {http.request.local.host} 5 1h\n}\n")
	defer r.Close()
	v := r.Play(&accesslog.Entry{Method: "GET", Host: "127.0.0.1", URI: "/", Client: "192.0.2.7"})
	assert.ErrorIf(t, v.Outcome != limiter.OutcomeAllowed || len(v.Policies) != 1 || v.Policies[0].Key == "" || v.Policies[0].EmptyKey, "got %+v", v)
}

// TestSimulation_refuses_the_app_by_itself has an app that is wrong, and no limit that needs it.
func TestSimulation_refuses_the_app_by_itself(t *testing.T) {
	_, err := simulate.New([]byte(`{"apps":{"redis_ratelimit":{"timeout":-1}}}`), "")
	if err == nil || !strings.HasPrefix(err.Error(), "loading redis_ratelimit app module: ") || !strings.Contains(err.Error(), "timeout -1ns") {
		t.Errorf("got %v; want the error of the app", err)
	}
}
