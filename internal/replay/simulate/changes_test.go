package simulate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// logged is a request as Caddy logs it.
type logged struct {
	method, host, uri string
	headers           map[string][]string
}

// caddyLog writes requests as Caddy does, each a second after the one before.
func caddyLog(t *testing.T, requests ...logged) string {
	t.Helper()
	var lines strings.Builder
	for i, r := range requests {
		line := map[string]any{"ts": 1_800_000_000 + i, "logger": "http.log.access", "duration": 0.01, "size": 2, "status": 200, "request": map[string]any{
			"remote_ip": "192.0.2.1", "client_ip": "192.0.2.1", "proto": "HTTP/1.1", "method": r.method, "host": r.host, "uri": r.uri, "headers": r.headers,
		}}
		lines.Write(assert.NoError(json.Marshal(line))(t))
		lines.WriteByte('\n')
	}
	return lines.String()
}

// changesOf plays a log through a site with one directive, and returns the lines about what is not as before.
func changesOf(t *testing.T, directive, log string) (told string, c *replay.Changes) {
	t.Helper()
	r := simulateCaddyfile(t, ":8080 {\n"+directive+"\nrespond ok\n}\n")
	r.TellChanges()
	result := playOn(t, r, r, accesslog.ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(log)}, replay.RunOptions{})
	var text strings.Builder
	result.WriteTable(display.NewWriter(&text))
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "  changed: ") || strings.HasPrefix(line, "  not compared: ") || strings.Contains(line, " -> ") {
			told += strings.TrimSpace(line) + "\n"
		}
	}
	return told, result.Policies[0].Changes
}

// TestChanges plays requests whose keys, readability and looks are others than before, and such that stay.
func TestChanges(t *testing.T) {
	get := func(uris ...string) (list []logged) {
		for _, uri := range uris {
			list = append(list, logged{"GET", "example.com", uri, nil})
		}
		return list
	}
	withHeader := func(name string, values ...string) (list []logged) {
		for _, value := range values {
			list = append(list, logged{"GET", "example.com", "/", map[string][]string{name: {value}}})
		}
		return list
	}
	for name, tt := range map[string]struct {
		directive string
		log       []logged
		want      string
	}{
		"nothing": {"redis_ratelimit {client_ip} 9 1h", get("/Login", "/login/"), "changed: nothing that this log shows\n"},
		"paths": {
			"redis_ratelimit {path} 9 1h", get("/login", "/Login", "/login/", "/a.js", "/a.css", "/b"),
			"changed: 4 requests with another key (66.7 %); 6 keys before, 3 now\n/login and /Login -> /login\n/a.js and /a.css -> /a\n",
		},
		"a path that no other joins": {
			"redis_ratelimit {path} 9 1h", get("/Login", "/Login"),
			"changed: 2 requests with another key (100 %); 1 key before, 1 now\n/Login -> /login\n",
		},
		"raw_key": {
			"redis_ratelimit {path} 9 1h {\nraw_key\n}", get("/Login", "/login/", "/a%01b"),
			"changed: 1 request whose {path} is unreadable (control): count by the address\n",
		},
		"hosts": {
			"redis_ratelimit {host} 9 1h", []logged{{"GET", "Example.com", "/", nil}, {"GET", "example.com.", "/", nil}, {"GET", "exa_mple.com", "/", nil}},
			"changed: 2 requests with another key (66.7 %); 3 keys before, 2 now\nExample.com and example.com. -> example.com\n",
		},
		"queries": {
			"redis_ratelimit {query.q} 9 1h {\non_empty_key reject\n}",
			get("/?q=A", "/?q=a", "/?q=a;b", "/?q=1&Q=2", "/?q=1&q=2", "/?other=1"),
			"changed: 1 request with another key (16.7 %); 2 keys before, 1 now\nA and a -> a\n" +
				"changed: 1 request whose {query.q} is unreadable (semicolon): get 400\nchanged: 1 request whose {query.q} is unreadable (conflict): get 400\n",
		},
		"headers": {
			"redis_ratelimit {header.X-Api-Key} 9 1h {\non_empty_key reject\n}", withHeader("X-Api-Key", "abc", "ABC", "REDACTED"),
			"changed: 1 request with another key (33.3 %); 2 keys before, 1 now\nabc and ABC -> abc\nnot compared: 1 request with a redacted value in the key\n",
		},
		"credentials": {
			"redis_ratelimit {header.Authorization} 9 1h", withHeader("Authorization", "REDACTED"),
			"changed: nothing that this log shows\nnot compared: 1 request with a redacted value in the key\n" +
				"not compared: {header.Authorization}, as logs have neither cookies nor credentials\n",
		},
		"match": {
			"redis_ratelimit {client_ip} 9 1h {\nmatch path /login\n}", get("/login", "/login/", "/login;x", "//login", "/other"),
			"changed: 2 requests that match did not meet before\n",
		},
		"look": {
			"redis_ratelimit {client_ip} 9 1h {\ncount_if status 401\n}", append(get("/", "/a"), logged{"POST", "example.com", "/", nil}),
			"changed: 2 requests that look first, and take nothing before their response\n",
		},
		"look as before": {"redis_ratelimit {client_ip} 9 1h {\ncount_if status 401\nin_flight 0\n}", get("/"), "changed: nothing that this log shows\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := changesOf(t, tt.directive, caddyLog(t, tt.log...))
			assert.ErrorIf(t, got != tt.want, "got\n%swant\n%s", got, tt.want)
		})
	}
}

// TestChanges_of_hostile_lines plays lines that attack who reads the result, and lines that are no requests.
func TestChanges_of_hostile_lines(t *testing.T) {
	long := "/" + strings.Repeat("A", 100_000)
	log := caddyLog(t, logged{"GET", "example.com", long, nil}, logged{"GET", "example.com", strings.ToLower(long), nil},
		logged{"GET", "example.com", "/%1b]0;x%07Y", nil}, logged{"GET", "example.com", "/%ff", nil}, logged{"GET", "example.com", "no path", nil}) +
		"\x1b[2J\n{\"request\":{}}\n{\"ts\":1800000009,\"request\":null}\n\x00\xff\n" +
		`{"ts":1800000009,"logger":"http.log.access","request":{"client_ip":"192.0.2.1","method":"GET","host":"a","uri":"/ÉÉ\u202e"},"status":200,"duration":1}` + "\n"
	told, c := changesOf(t, "redis_ratelimit {path} 9 1h", log)
	assert.ErrorIf(t, strings.ContainsAny(told, "\x1b\x07\u202e") || !utf8.ValidString(told) || len(told) > 1000, "got %q", told)
	assert.Equal(t, c.KeysBefore, c.KeysNow+1, "keys before, of %q", told)
	refused := int64(0)
	for _, u := range c.Unreadable {
		refused += u.Requests
	}
	assert.Equal(t, refused, 2, "unreadable requests in %q", told)
}

// TestChanges_counts_keys_as_before compares with how many keys of its real log a build of the commit c1c40a99 has found by
// caddy redis-ratelimit replay.
func TestChanges_counts_keys_as_before(t *testing.T) {
	r := simulateCaddyfile(t, ":8080 {\nredis_ratelimit {client_ip}:{path} 10 1m\nrespond ok\n}\n")
	r.TellChanges()
	result := playOn(t, r, r, accesslog.ReaderOptions{Files: []string{nasaLog()}}, replay.RunOptions{})
	c := result.Policies[0].Changes
	assert.Equal(t, fmt.Sprint(c.KeysBefore, c.KeysNow, c.OtherKeys, len(c.Examples)), "6376 6299 7738 3", "keys before and now, other keys, examples")
	assert.Equal(t, result.Policies[0].Clients, c.KeysNow, "keys")
}

// TestChanges_are_not_told_unasked leaves them out.
func TestChanges_are_not_told_unasked(t *testing.T) {
	log := accesslog.ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(caddyLog(t, logged{"GET", "example.com", "/Login", nil}))}
	result := play(t, ":8080 {\nredis_ratelimit {path} 9 1h\nrespond ok\n}\n", log)
	text := string(assert.NoError(json.Marshal(result))(t))
	assert.ErrorIf(t, result.Policies[0].Changes != nil || strings.Contains(text, "changes"), "got %s", text)
}
