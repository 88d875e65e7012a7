package config

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestSecrets_refusedByRedis has wrong passwords, with errors of Redis and of the client.
func TestSecrets_refusedByRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "the right one")
	for name, option := range map[string]string{
		"URL":           "redis redis://someone:{env.REDIS_PASSWORD}@" + server.Addr,
		"block":         "redis {\naddress " + server.Addr + "\nusername someone\npassword {env.REDIS_PASSWORD}\n}",
		"cluster":       "redis {\nmode cluster\naddress " + server.Addr + "\npassword {env.REDIS_PASSWORD}\n}",
		"sentinel":      "redis {\nmode sentinel\nmaster m\naddress " + server.Addr + "\nsentinel_password {env.REDIS_PASSWORD}\n}",
		"no such host":  "redis redis://:{env.REDIS_PASSWORD}@nowhere.invalid:6379",
		"no such files": "redis unix://:{env.REDIS_PASSWORD}@/nowhere.sock",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := []string{"REDIS_PASSWORD=" + caddytest.Password, "SECRET=pepper and salt"}
			n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nhash_keys {env.SECRET}\n"+option+"\n}", "redis_ratelimit same 3 24h"+caddytest.ShowDecision), env...)
			caddytest.CheckAdmitted(t, n.Get(t, "/"), "fallback")
			caddytest.CheckSecrets(t, n, env)
		})
	}
}

// TestSecrets_errors loads invalid configurations with passwords.
func TestSecrets_errors(t *testing.T) {
	t.Parallel()
	const secret = "hunter2%zz"
	n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit same 3 24h"+caddytest.ShowDecision), "WRONG_URL=redis://user:"+secret+"@host:port", "SECRET="+secret)
	for name, option := range map[string]string{
		"a URL that cannot be parsed":          "redis redis://user:" + secret + "@127.0.0.1:6379",
		"a wrong scheme":                       "redis http://user:hunter2@127.0.0.1:6379",
		"a wrong port":                         "redis redis://user:hunter2@127.0.0.1:99999",
		"a wrong database":                     "redis redis://user:hunter2@127.0.0.1:6379/x",
		"a parameter":                          "redis redis://127.0.0.1:6379?password=hunter2",
		"a placeholder for the whole URL":      "redis {env.WRONG_URL}",
		"a placeholder with a wrong port":      "redis redis://user:{env.SECRET}@127.0.0.1:port",
		"a secret where an address is":         "redis {\naddress {env.WRONG_URL}\n}",
		"a URL where an address is":            "redis {\naddress redis://user:hunter2@127.0.0.1:6379\n}",
		"a second password":                    "redis {\naddress 127.0.0.1:1\npassword hunter2 hunter2\n}",
		"a URL and a block":                    "redis redis://user:hunter2@127.0.0.1:6379 {\ndb 3\n}",
		"a secret with the option's name gone": "redis {\naddress 127.0.0.1:1\nmaster m\npassword hunter2\n}",
	} {
		a := n.Load(t, caddytest.Config("redis_ratelimit {\n"+option+"\n}", "redis_ratelimit same 3 24h"))
		if a.Status != http.StatusBadRequest || strings.Contains(a.Body, "hunter2") {
			t.Errorf("%s: got %v; want status 400 without the password", name, a)
		}
	}
	caddytest.CheckHidden(t, "the log", n.Log.String(), "hunter2")
}

// TestPassword_rotation changes the password in Redis and in its file. The Caddyfile stays the same, so
// that the reload must be forced.
func TestPassword_rotation(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "first-secret")
	password := filepath.Join(t.TempDir(), "password")
	write := func(secret string) {
		if err := os.WriteFile(password, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first-secret")
	text := caddytest.Config("redis_ratelimit {\nredis {\naddress "+server.Addr+"\npassword {file."+password+"}\n}\n}", "redis_ratelimit same 1000 24h"+caddytest.ShowDecision)
	n := caddytest.Start(t, text)
	caddytest.WaitForRedis(t, n, "/")
	ctx := context.Background()
	conn := server.Client(t).Conn()
	defer conn.Close() //nolint:errcheck // the test is over
	conn.Do(ctx, "auth", "first-secret")
	if err := conn.ConfigSet(ctx, "requirepass", "second-secret").Err(); err != nil {
		t.Fatal(err)
	}
	conn.Do(ctx, "auth", "second-secret")
	conn.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes")
	if a := n.Get(t, "/"); a.Body != "allowed fallback" {
		t.Errorf("got %v; want it decided here, because the password is wrong now", a)
	}
	write("second-secret")
	if a := n.Send(t, http.MethodPost, n.Admin+"/load", text, "Content-Type: text/caddyfile", "Cache-Control: must-revalidate"); a.Status != http.StatusOK {
		t.Fatalf("got %v", a)
	}
	n.Client.CloseIdleConnections()
	caddytest.WaitForRedis(t, n, "/")
	if log := n.Log.String(); strings.Contains(log, "first-secret") || strings.Contains(log, "second-secret") {
		t.Error("the log has a password")
	}
}
