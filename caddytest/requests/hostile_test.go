package requests

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// canary is part of every hostile key, to find log lines with a key.
const canary = "canary"

// hostileKeys are keys of different clients, built to collide with one another or with other Redis keys.
func hostileKeys() []string {
	keys := []string{
		"", "{", "}", "{}", "}{", "{a}", "a{b}c", "}:default:c1d", "\x00", "\x00\x00", "\n", "\r\n", "\r\nSELECT 1\r\n",
		"%", "%%", "%25", "%7B", "%7b", "%(", "%)", "%~", "%~0123", "%ip:127.0.0.1", "\xff", "\xff\xfe", "\xc3\x28", "\xc3",
		"\ufffd", "é", "e\u0301", "{env.HOME}", "{http.request.host}", "{http.vars.client_ip}", "\\{", "*", "?", "[a]", "'", `"`, "|", " ", "  ", "\t",
		"-1", "nil", "-inf", "redis.call('flushall')", "]] redis.call('flushall') --", "../..", "a:b:c",
	}
	for _, length := range []int{121, 122, 123, 127, 128, 129, 5000} {
		keys = append(keys, strings.Repeat("x", length), strings.Repeat("{", length))
	}
	for i, key := range keys {
		keys[i] = canary + key
	}
	return append(keys, "%~"+canary, "%ip:127.0.0.1"+canary, "{"+canary+"}", "\x00"+canary)
}

func TestHostile_keys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for source, global := range map[string]string{"memory": "", "redis": caddytest.PatientRedis(server)} {
		t.Run(source, func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config(global, "redis_ratelimit {query.k} 1 24h"+caddytest.ShowDecision))
			keys := hostileKeys()
			for _, want := range []string{"allowed ", "denied "} {
				for _, key := range keys {
					if a := n.Get(t, "/?k="+url.QueryEscape(key)); a.Body != want+source {
						t.Errorf("key %.40q: got %v; want %s%s", key, a, want, source)
					}
				}
			}
			checkNoKeyIsLogged(t, n)
			if source == "redis" {
				checkNamesAreWhole(t, server, len(keys))
			}
		})
	}
}

// checkNoKeyIsLogged checks the lines of this module. Caddy's own lines quote the request.
func checkNoKeyIsLogged(t *testing.T, n *caddytest.Node) {
	t.Helper()
	lines := n.Log.Lines(caddytest.Ours)
	for _, line := range lines {
		if strings.Contains(line.Text, canary) {
			t.Errorf("a client's key is logged: %s", line.Text)
		}
	}
	if len(lines) == 0 {
		t.Error("nothing is logged at all, not even denials at DEBUG")
	}
}

// checkNamesAreWhole checks that each client has one Redis key, with one pair of braces.
func checkNamesAreWhole(t *testing.T, server *redistest.Server, clients int) {
	t.Helper()
	names, err := server.Client(t).Keys(t.Context(), "*").Result()
	if err != nil || len(names) != clients {
		t.Errorf("there are %d keys in Redis, error %v; want %d", len(names), err, clients)
	}
	whole := regexp.MustCompile(`^rl:\{[^{}]{1,128}\}:default:c1d$`)
	for _, name := range names {
		if !whole.MatchString(name) {
			t.Errorf("a key is called %q", name)
		}
	}
}

func TestHostile_compositeKeys(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit {\nkey {query.a}|{query.b}\nlimit 1\nwindow 24h\n}\n"+
		"redis_ratelimit /adjacent {\nname adjacent\nkey {query.a}{query.b}\nlimit 1\nwindow 24h\n}"+caddytest.ShowDecision))
	pairs := [][2]string{
		{"a|b", "c"}, {"a", "b|c"}, {"a%7Cb", "c"}, {"a", "b%7Cc"}, {"a|", "c"}, {"a", "|c"}, {"a||c", "x"}, {"a", "|c|x"},
		{"ab", "c"}, {"a", "bc"}, {"a%", "7Cc"}, {"a%7", "Cc"}, {"%", "%"}, {"%%", "%25"},
	}
	for _, path := range []string{"/", "/adjacent"} {
		for _, want := range []string{"allowed memory", "denied memory"} {
			for _, pair := range pairs {
				query := url.Values{"a": {path + pair[0]}, "b": {pair[1]}}.Encode()
				if a := n.Get(t, path+"?"+query); a.Body != want {
					t.Errorf("%s with %q: got %v; want %s", path, pair, a, want)
				}
			}
		}
	}
}

func TestHostile_longHeaders(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("servers {\nmax_header_size 2MB\n}", "redis_ratelimit {header.X-Key} 1 24h"+caddytest.ShowDecision))
	long := strings.Repeat("x", 900_000)
	for _, want := range []string{"allowed memory", "denied memory"} {
		for _, end := range []string{"a", "b"} {
			if a := n.Get(t, "/", "X-Key: "+long+end); a.Body != want {
				t.Errorf("key …%s: status %d, body %q; want %s", end, a.Status, a.Body, want)
			}
		}
	}
}

func TestForwardedAddress_trustedProxies(t *testing.T) {
	t.Parallel()
	for trusted, want := range map[string]int{"": http.StatusTooManyRequests, "servers {\ntrusted_proxies static 127.0.0.0/8\n}": http.StatusOK} {
		t.Run(fmt.Sprintf("trusted=%t", trusted != ""), func(t *testing.T) {
			n := caddytest.Start(t, caddytest.Config(trusted, "redis_ratelimit {client_ip} 1 24h"+caddytest.ShowDecision))
			caddytest.CheckAdmitted(t, n.Get(t, "/", "X-Forwarded-For: 192.0.2.1"), "memory")
			for _, spoofed := range []string{"192.0.2.2", "192.0.2.3", "2001:db8::1", "2001:db8:0:1::1"} {
				if a := n.Get(t, "/", "X-Forwarded-For: "+spoofed); a.Status != want {
					t.Errorf("from %s: %v; want status %d", spoofed, a, want)
				}
			}
			if a := n.Get(t, "/", "X-Forwarded-For: 192.0.2.1"); a.Status != http.StatusTooManyRequests {
				t.Errorf("the first address again: %v; want it denied", a)
			}
		})
	}
}

// TestEmptyKey_collision has a client without a key, and others whose header imitates its stored key.
func TestEmptyKey_collision(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit {header.X-Key} 1 24h"+caddytest.ShowDecision))
	for _, header := range []string{"X-Key: 127.0.0.1", "X-Key: %ip:127.0.0.1", "X-Key: %25ip:127.0.0.1", "X-Key: %ip%3A127.0.0.1", "X-Other: none"} {
		caddytest.CheckAdmitted(t, n.Get(t, "/", header), "memory")
	}
	for _, header := range []string{"X-Other: none", "X-Key:  ", "X-Key: 127.0.0.1"} {
		if a := n.Get(t, "/", header); a.Body != "denied memory" {
			t.Errorf("%s: got %v; want it denied", header, a)
		}
	}
}

func TestEmptyKey_skipAndReject(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", `
	redis_ratelimit /skip {header.X-Key} 1 24h {
		on_empty_key skip
	}
	redis_ratelimit /reject {header.X-Key} 1 24h {
		on_empty_key reject
	}
	respond ok`))
	for range 3 {
		if a := n.Get(t, "/skip"); a.Status != http.StatusOK || caddytest.HasQuota(a) {
			t.Errorf("skip: got %v; want it passed without rate limit headers", a)
		}
		if a := n.Get(t, "/reject"); a.Status != http.StatusBadRequest || caddytest.HasQuota(a) {
			t.Errorf("reject: got %v; want status 400", a)
		}
	}
	if a := n.Get(t, "/skip", "X-Key: jane"); a.Status != http.StatusOK {
		t.Errorf("skip with a key: got %v; want it allowed", a)
	}
	if a := n.Get(t, "/reject", "X-Key: jane"); a.Status != http.StatusTooManyRequests {
		t.Errorf("reject with the same key: got %v; want it denied, because both are called default", a)
	}
}

// TestForeignValue_otherClients writes a value that the scripts cannot read. Other clients are not
// affected.
func TestForeignValue_otherClients(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), "redis_ratelimit {query.k} 1000 24h"+caddytest.ShowDecision))
	for key, write := range map[string][]any{
		canary + "list":  {"rpush", "rl:{canarylist}:default:c1d", "x"},
		canary + "short": {"set", "rl:{canaryshort}:default:c1d", "x"},
		canary + "long":  {"set", "rl:{canarylong}:default:c1d", strings.Repeat("\xff", 24)},
	} {
		if err := client.Do(t.Context(), write...).Err(); err != nil {
			t.Fatal(err)
		}
		if a := n.Get(t, "/?k="+key); a.Status != http.StatusOK && a.Status != http.StatusTooManyRequests {
			t.Errorf("%s: got %v", key, a)
		}
		caddytest.CheckAdmitted(t, n.Get(t, "/?k=other"), "redis")
	}
	for _, line := range n.Log.Lines(caddytest.Ours) {
		if strings.Contains(line.Text, canary) {
			t.Errorf("a client's key is logged: %s", line.Text)
		}
	}
}
