package redisratelimit

import (
	"encoding/json"
	"strings"
	"testing"
)

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
		`{"local_share":"VALUE"}`, `{"memory":"VALUE"}`, `{"memory":{"max_keys":"VALUE"}}`, `{"VALUE":1}`,
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
