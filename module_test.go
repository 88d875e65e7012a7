package redisratelimit

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// TestHandler_of_JSON_is_refused_by_the_name_of_what_is_wrong has what no Caddyfile can say.
func TestHandler_of_JSON_is_refused_by_the_name_of_what_is_wrong(t *testing.T) {
	ctx, end := newContext(t, "")
	defer end()
	for text, want := range refused(t, "refused_json.txt") {
		_, err := ctx.LoadModuleByID("http.handlers.redis_ratelimit", json.RawMessage(text))
		assert.ErrorIf(t, err == nil || !strings.Contains(err.Error(), want), "%s: got error %v, want one with %q", text, err, want)
	}
}

// TestHandler_of_JSON_is_refused_for_its_prefix has a prefix that no handler can have, and a policy that
// another handler has too.
func TestHandler_of_JSON_is_refused_for_its_prefix(t *testing.T) {
	ctx, end := newContext(t, "")
	defer end()
	loadHandler(t, ctx, policyJSON("prefixed", "5"))
	for _, text := range []string{`"ipv4_prefix":33`, `"ipv4_prefix":-1`, `"ipv6_prefix":129`, `"ipv6_prefix":-1`} {
		for _, before := range []string{`{"policies"`, `{"name"`} {
			_, err := ctx.LoadModuleByID("http.handlers.redis_ratelimit", json.RawMessage(strings.Replace(policyJSON("prefixed", "5"), before, "{"+text+","+before[1:], 1)))
			want := strings.NewReplacer(`"`, "", ":", " ").Replace(text) + ": use a number"
			assert.ErrorIf(t, err == nil || !strings.Contains(err.Error(), want), "got %v; want an error with %q", err, want)
		}
	}
}

// TestHandler_of_JSON_fills_policies has options of a handler that one of its policies has too.
func TestHandler_of_JSON_fills_policies(t *testing.T) {
	h := newHandler(t, `{"ipv4_prefix":24,"on_empty_key":"skip","dry_run":true,"policies":[
		{"name":"own","limit":5,"window":"24h","ipv4_prefix":0,"ipv6_prefix":128,"on_empty_key":"client_ip"},
		{"name":"filled","limit":5,"window":"24h"}]}`)
	for i, want := range []struct {
		keys  []string
		empty rule.EmptyKey
	}{{[]string{"0.0.0.0/0", "2001:db8::9"}, rule.EmptyKeyClientIP}, {[]string{"203.0.113.0/24", "2001:db8::/64"}, rule.EmptyKeySkip}} {
		r, keys := &h.limiter.Rules.Rules[i], []string(nil)
		for _, key := range []string{"0.0.0.0/0", "203.0.113.0/24", "203.0.113.9", "2001:db8::/64", "2001:db8::9"} {
			if r.CanYield(limiter.AsEncoded(key)) {
				keys = append(keys, key)
			}
		}
		if !slices.Equal(keys, want.keys) || r.OnEmptyKey != want.empty || !r.DryRun {
			t.Errorf("policy %s: got keys %q, %s and dry run %t", r.Policy.Name(), keys, r.OnEmptyKey, r.DryRun)
		}
	}
}

// TestHandler_Provision_again has a handler that a second configuration uses.
func TestHandler_Provision_again(t *testing.T) {
	h := new(Handler)
	assert.Must(t, json.Unmarshal([]byte(policyJSON("again", "5")), h))
	for range 2 {
		assert.Must(t, h.Provision(lastingContext(t, "")))
		assert.ErrorIf(t, len(h.limiter.Counters) != len(h.limiter.Rules.Rules),
			"%d counters of %d rules", len(h.limiter.Counters), len(h.limiter.Rules.Rules))
	}
}

func TestHandler_of_JSON_takes_null_for_what_is_left_out(t *testing.T) {
	h := newHandler(t, `{"policies":[{"name":null,"key":null,"algorithm":null,"weight":null,"match":null,"count_if":null,"max_delay":null,"limit":5,"window":"24h"}],
		"status":null,"ipv4_prefix":null,"ipv6_prefix":null,"exempt":null,"headers":null,"retry_jitter":null,"fail_mode":null}`)
	assert.ErrorIf(t, h.Status != 429 || *h.IPv4Prefix != 32 || h.Policies[0].Key != "{http.vars.client_ip}", "got the handler %+v", *h)
}

// TestReserve_UnmarshalJSON reads units as a number or as text, and percent.
func TestReserve_UnmarshalJSON(t *testing.T) {
	for text, want := range map[string]options.Reserve{`20`: "20", `"20"`: "20", `"20%"`: "20%", `0`: "0", `1.5`: "1.5", `-1`: "-1"} {
		var p options.Policy
		err := json.Unmarshal([]byte(`{"reserve":`+text+`}`), &p)
		assert.ErrorIf(t, err != nil || p.Reserve != want, "%s is %q, %v; want %q", text, p.Reserve, err, want)
	}
	for _, text := range []string{`true`, `[20]`, `{"units":20}`} {
		err := json.Unmarshal([]byte(`{"reserve":`+text+`}`), new(options.Policy))
		assert.ErrorIf(t, err == nil, "%s is taken", text)
	}
}

// TestSecrets_URLInWrongField has a URL with a password in every field of the app's JSON that takes none.
func TestSecrets_URLInWrongField(t *testing.T) {
	const url = "redis://user:hunter2@127.0.0.1:1"
	t.Setenv("WRONG_URL", url)
	const address = `{"redis":{"addresses":["127.0.0.1:1"],`
	for _, text := range []string{
		`{"redis":{"addresses":["VALUE"]}}`,
		`{"redis":{"addresses":["127.0.0.1:1","VALUE"],"mode":"cluster"}}`,
		`{"redis":{"addresses":["/VALUE"]}}`,
		`{"redis":{"url":"redis://127.0.0.1:1","VALUE":1}}`,
		address + `"mode":"VALUE"}}`,
		address + `"mode":"sentinel","master":"VALUE"}}`,
		address + `"mode":"sentinel","master":"m","sentinel_username":"VALUE"}}`,
		address + `"username":"VALUE"}}`,
		address + `"credentials":"VALUE"}}`,
		address + `"credentials":{"source":"VALUE","path":"/x"}}}`,
		address + `"credentials":{"source":"file","path":"VALUE"}}}`,
		address + `"credentials":{"source":"file","VALUE":"x"}}}`,
		address + `"db":"VALUE"}}`,
		address + `"pool_size":"VALUE"}}`,
		address + `"tls":"VALUE"}}`,
		address + `"tls":{"ca":"VALUE"}}}`,
		address + `"tls":{"cert":"VALUE","key":"/nowhere.pem"}}}`,
		address + `"tls":{"cert":"/dev/null","key":"VALUE"}}}`,
		address + `"tls":{"server_name":"VALUE"}}}`,
		address + `"tls":{"VALUE":"x"}}}`,
		address + `"password":"a{VALUE}b"}}`,
		`{"timeout":"VALUE"}`, `{"fail_mode":"VALUE"}`, `{"key_prefix":"VALUE"}`, `{"deny_cache":"VALUE"}`,
		`{"local_share":"VALUE"}`, `{"memory":"VALUE"}`, `{"memory":{"max_keys":"VALUE"}}`, `{"memory":{"max_bodies":"VALUE"}}`, `{"VALUE":1}`,
		`{"redis":"VALUE"}`,
	} {
		for _, value := range []string{url, "{env.WRONG_URL}"} {
			text := strings.ReplaceAll(text, "VALUE", value)
			if strings.Contains(text, "a{{env") {
				continue // a placeholder that has a value
			}
			ctx, end := newContext(t, text)
			if _, err := loadApp(ctx); err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: got the error %v; want one without the password", text, err)
			}
			end()
			if _, err := configuredRedis(json.RawMessage(text)); err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: check: got the error %v; want one without the password", text, err)
			}
		}
	}
}

// FuzzCaddyfile reads any text as the directive and as the global option. What is accepted must
// load, and what is refused must be told with its line.
func FuzzCaddyfile(f *testing.F) {
	for _, path := range goldenFiles(f) { // to begin with
		text := assert.NoError(os.ReadFile(path))(f)
		input, _, _ := strings.Cut(string(text), tenDashes)
		if at := strings.Index(input, options.AppName); at >= 0 { // the directive or option at its beginning
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
			err := json.Unmarshal(app.Value, new(App))
			assert.ErrorIf(t, err != nil, "the option cannot be loaded: %v", err)
		}
		handler, err := options.ParseDirective(httpcaddyfile.Helper{Dispenser: caddyfile.NewDispenser(tokens), State: map[string]any{}}, options.Matcher{}, options.RestOfCaddyfile{Begins: func() {}, Warn: func(routetrace.Warning) {}, MaxBodies: defaultMaxBodies})
		checkParsed(t, handler, err)
		if err == nil {
			checkHandlerLoads(t, &Handler{Directive: *handler})
		}
	})
}

func checkParsed(t *testing.T, value any, err error) {
	t.Helper()
	assert.ErrorIf(t, err != nil && !strings.Contains(err.Error(), "Caddyfile:"), "the error names no line: %v", err)
	assert.ErrorIf(t, err == nil && value == nil, "neither a value nor an error")
}

// checkHandlerLoads sends a handler through JSON, as Caddy does.
func checkHandlerLoads(t *testing.T, h *Handler) {
	t.Helper()
	text := assert.NoError(json.Marshal(h))(t)
	loaded := new(Handler)
	if err := json.Unmarshal(text, loaded); err != nil {
		t.Fatalf("%s cannot be loaded: %v", text, err)
	}
	loaded.SetDefaults()
	if err := loaded.Check(); err != nil {
		t.Errorf("%s is refused when it is loaded: %v", text, err)
	}
}
