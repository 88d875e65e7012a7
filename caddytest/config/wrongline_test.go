package config

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestSecrets_URLInWrongLine writes a URL with a password behind every option that takes none, and in
// place of an option. The URL stands there itself and as the value of a placeholder.
func TestSecrets_URLInWrongLine(t *testing.T) {
	t.Parallel()
	const url, placeholder = "redis://user:hunter2@127.0.0.1:1", "{env.WRONG_URL}"
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit same 3 24h"+caddytest.ShowDecision), "WRONG_URL="+url)
	redis := func(lines string) string { return "redis {\naddress 127.0.0.1:1\n" + lines + "\n}" }
	sentinel := func(lines string) string { return redis("mode sentinel\n" + lines) }
	tls := func(lines string) string { return redis("tls {\n" + lines + "\n}") }
	for name, option := range map[string]string{
		"address":           "redis {\naddress VALUE\n}",
		"second address":    "redis {\nmode cluster\naddress 127.0.0.1:1 VALUE\n}",
		"socket":            "redis {\naddress /VALUE\n}",
		"mode":              redis("mode VALUE"),
		"master":            sentinel("master VALUE"),
		"username":          redis("username VALUE"),
		"sentinel_username": sentinel("master m\nsentinel_username VALUE"),
		"credentials":       redis("credentials VALUE"),
		"source":            redis("credentials VALUE /x"),
		"path":              redis("credentials file VALUE"),
		"db":                redis("db VALUE"),
		"pool_size":         redis("pool_size VALUE"),
		"tls":               redis("tls VALUE"),
		"ca":                tls("ca VALUE"),
		"cert":              tls("cert VALUE\nkey /nowhere.pem"),
		"key":               tls("cert /dev/null\nkey VALUE"),
		"server_name":       tls("server_name VALUE"),
		"word of redis":     redis("VALUE"),
		"word of redis 2":   redis("VALUE VALUE"),
		"word of tls":       tls("VALUE"),
		"block":             redis("password a {\nVALUE\n}"),
		"two values":        redis("password VALUE VALUE"),
		"two URLs":          "redis VALUE VALUE",
		"URL and word":      "redis redis://127.0.0.1:1 {\nVALUE\n}",
		"password in URL":   "redis redis://u{VALUE}:p@127.0.0.1:1",
		"braces":            redis("password pa{hunter2}ss"),
		"timeout":           "timeout VALUE",
		"fail_mode":         "fail_mode VALUE",
		"key_prefix":        "key_prefix VALUE",
		"deny_cache":        "deny_cache VALUE",
		"local_share":       "local_share VALUE",
		"max_keys":          "memory {\nmax_keys VALUE\n}",
		"word of memory":    "memory {\nVALUE 3\n}",
		"word":              "VALUE VALUE",
		"hash_keys":         "hash_keys VALUE VALUE",
	} {
		for _, value := range []string{url, placeholder} {
			text := strings.ReplaceAll(option, "VALUE", value)
			a := n.Load(t, caddytest.Config("redis_ratelimit {\n"+text+"\n}", "redis_ratelimit same 3 24h"))
			if a.Status != http.StatusBadRequest || strings.Contains(a.Body, "hunter2") {
				t.Errorf("%s: got %v; want status 400 without the password", name, a)
			}
		}
		path := caddytest.WriteCaddyfile(t, "{\nredis_ratelimit {\n"+strings.ReplaceAll(option, "VALUE", url)+"\n}\n}\n:8080 {\nredis_ratelimit same 3 24h\n}\n")
		if e := caddytest.RunRatelimit(t, nil, "check", "--config", path); strings.Contains(e.String(), "hunter2") {
			t.Errorf("%s: check shows the password: %v", name, e)
		}
	}
	caddytest.CheckHidden(t, "the log", n.Log.String(), "hunter2")
}
