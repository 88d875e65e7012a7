package redisratelimit

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// FuzzParseKey gives all placeholders of a key one value, then another, and wants two keys.
func FuzzParseKey(f *testing.F) {
	for _, text := range []string{"{p.0}", "{p.0}|{p.1}", "{p.0}{p.1}", `\{a\}{p.0}%41`, "{http.vars.client_ip}", "{", "a}b", `\`, `\{`, "{a.{b}"} {
		f.Add(text, "a", "a|b")
		f.Add(text, "%7C", "|")
		f.Add(text, strings.Repeat("x", 129), strings.Repeat("x", 130))
	}
	f.Fuzz(func(t *testing.T, text, first, second string) {
		template, err := parseKey(text, exact)
		if err != nil {
			if !strings.Contains(err.Error(), "key") {
				t.Errorf("the error does not name its option: %v", err)
			}
			return
		}
		placeholders := 0
		values := [2]map[string]string{{}, {}}
		for _, part := range template.parts {
			if part.address || part.header != "" {
				return // whose values come from elsewhere
			}
			if part.placeholder != "" {
				placeholders++
				values[0][part.placeholder], values[1][part.placeholder] = first, second
			}
		}
		var keys [2]string
		for i := range keys {
			r, repl := keyRequest("192.0.2.1", values[i])
			keys[i] = template.of(r, repl)
			if len(keys[i]) > maxKeyLength || strings.ContainsAny(keys[i], "{}") {
				t.Errorf("the key %q is too long or has braces", keys[i])
			}
			if again := template.of(r, repl); again != keys[i] {
				t.Errorf("a request has the keys %q and %q", keys[i], again)
			}
		}
		if placeholders > 0 && first != second && keys[0] == keys[1] {
			t.Errorf("key %q is %q for %q and for %q", text, keys[0], first, second)
		}
	})
}

// FuzzHeaders shows any result that a store may give.
func FuzzHeaders(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0))
	f.Add(int64(99), int64(1), int64(1e18))
	f.Add(int64(5), int64(-1), int64(60e9))
	f.Fuzz(func(t *testing.T, remaining, retryAfter, resetAfter int64) {
		policy, err := limiter.NewPolicy(limiter.Settings{Name: "p", Algorithm: "gcra", Limit: 100, Window: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		result := limiter.Result{Remaining: max(0, remaining%101), RetryAfter: max(limiter.Never, time.Duration(retryAfter)), ResetAfter: max(0, time.Duration(resetAfter)) / 2}
		d := new(decision)
		d.add([]limiter.Check{{Policy: policy, Key: "k", Weight: 1, Result: result}}, limiter.SourceRedis, formats{xRateLimit: true, ietf: true})
		header := http.Header{}
		d.setHeaders(header)
		new(Handler).refuse(header, result.RetryAfter)
		for name, least := range map[string]int64{headerLimit: 100, headerRemaining: 0, headerReset: time.Now().Unix(), "Retry-After": 1} {
			value := header.Get(name)
			if name == "Retry-After" && result.RetryAfter == limiter.Never {
				if value != "" {
					t.Errorf("Retry-After %q of what can never pass", value)
				}
				continue
			}
			if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < least {
				t.Errorf("%s is %q for %+v, want a whole number from %d", name, value, result, least)
			}
		}
	})
}

// FuzzCaddyfile reads any text as the directive and as the global option. What is accepted must
// load, and what is refused must be told with its line.
func FuzzCaddyfile(f *testing.F) {
	paths, err := filepath.Glob("caddytest/adapt/*.caddyfiletest")
	if err != nil || len(paths) == 0 {
		f.Fatalf("there are no golden files to begin with, error %v", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		input, _, _ := strings.Cut(string(text), "\n----------\n")
		if at := strings.Index(input, appName); at >= 0 { // the directive or option at its beginning
			f.Add(input[at:])
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := caddyfile.Tokenize([]byte(text), "Caddyfile")
		if err != nil || len(tokens) == 0 {
			return
		}
		option, err := parseGlobalOption(caddyfile.NewDispenser(tokens), nil)
		checkParsed(t, option, err)
		if app, ok := option.(httpcaddyfile.App); ok && err == nil {
			if err := json.Unmarshal(app.Value, new(App)); err != nil {
				t.Errorf("the option cannot be loaded: %v", err)
			}
		}
		handler, err := parseHandler(httpcaddyfile.Helper{Dispenser: caddyfile.NewDispenser(tokens), State: map[string]any{}})
		checkParsed(t, handler, err)
		if h, ok := handler.(*Handler); ok && err == nil {
			checkHandlerLoads(t, h)
		}
	})
}

func checkParsed(t *testing.T, value any, err error) {
	t.Helper()
	if err != nil && !strings.Contains(err.Error(), "Caddyfile:") {
		t.Errorf("the error names no line: %v", err)
	}
	if err == nil && value == nil {
		t.Error("neither a value nor an error")
	}
}

// checkHandlerLoads sends a handler through JSON, as Caddy does.
func checkHandlerLoads(t *testing.T, h *Handler) {
	t.Helper()
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	loaded := new(Handler)
	if err := json.Unmarshal(text, loaded); err != nil {
		t.Fatalf("%s cannot be loaded: %v", text, err)
	}
	loaded.setDefaults()
	if err := loaded.check(); err != nil {
		t.Errorf("%s is refused when it is loaded: %v", text, err)
	}
}
