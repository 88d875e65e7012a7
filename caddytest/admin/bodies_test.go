package admin

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

const (
	ofForm = "Content-Type: application/x-www-form-urlencoded"
	ofJSON = "Content-Type: application/json"
)

// TestKeys_folded has operators name accounts as clients write them.
func TestKeys_folded(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n := caddytest.Start(t, caddytest.Config(option, `
			redis_ratelimit /login {
				name account
				key {form.email}
				on_empty_key reject
				limit 2
				window 24h
				ban 1h
			}
			redis_ratelimit /user {
				name user
				key {client_ip}|{json.user}
				on_empty_key reject
				limit 2
				window 24h
			}
			respond ok`))
		long := "Long" + strings.Repeat("x", 150)
		for _, email := range []string{"Bob%40Example.com", "BOB%40example.com+", long} {
			n.Send(t, "POST", n.URL+"/login", "email="+email, ofForm).Want(t, 200, "ok")
		}
		n.Send(t, "POST", n.URL+"/user", `{"user":"Bób"}`, ofJSON).Want(t, 200, "ok")
		const bob, hint = " Bob@Example.com", "this key counts as bob@example.com"
		command := func(name, key string, args ...string) caddytest.Ending {
			return n.Ratelimit(t, append([]string{name, "--policy", "account", "--key", key}, args...)...)
		}
		command("state", bob).Want(t, 0, "key          bob@example.com\n", "remaining    0\n", hint)
		command("state", "bob@example.com").Want(t, 0, "remaining    0\n")
		command("state", long).Want(t, 0, "remaining    1\n", "this key counts as %~")
		n.Ratelimit(t, "state", "--policy", "user", "--key", "127.0.0.1|BOB").Want(t, 0, "key          127.0.0.1|bob\n", "remaining    1\n")
		n.Ratelimit(t, "state", "--policy", "user", "--key", "%ip:127.0.0.1").Want(t, 0, "remaining    2\n")
		n.Send(t, "POST", n.URL+"/login", "email=bob%40example.com", ofForm).Want(t, 429, caddytest.Any)
		command("override", bob, "--unban").Want(t, 0, "1 ban lifted", hint)
		command("override", bob, "--limit", "5").Want(t, 0, "key       bob@example.com\n", hint)
		n.Send(t, "POST", n.URL+"/login", "email=bob%40example.com", ofForm).Want(t, 200, "ok")
		command("override", bob, "--remove").Want(t, 0, hint)
		command("reset", bob).Want(t, 0, "1 quota reset", hint)
		command("state", "bob@example.com").Want(t, 0, "remaining    2\n")
		command("override", "Bo\\x01b", "--block").Want(t, 2, "no request of policy")
	})
}

// TestKeys_foldedElsewhere has a policy whose handlers fold in different ways: a key that one of them makes stays.
func TestKeys_foldedElsewhere(t *testing.T) {
	policy := func(path, more string) string {
		return "redis_ratelimit " + path + " {\nname account\nlimit 3\nwindow 24h\non_empty_key reject\n" + more + "\n}\n"
	}
	n := caddytest.InProcess(t, policy("/a", "key {form.email}")+policy("/b", "key {form.email}\nraw_key")+"respond ok\n")
	for _, path := range []string{"/a", "/a", "/b"} {
		n.Send(t, "POST", n.URL+path, "email=Bob", ofForm).Want(t, 200, "ok")
	}
	n.Ratelimit(t, "state", "--policy", "account", "--key", "Bob").
		Want(t, 0, "key          Bob\n", "remaining    2\n", "from a request's body this key counts as bob")
	n.Ratelimit(t, "state", "--policy", "account", "--key", "bob").Want(t, 0, "key          bob\n", "remaining    1\n")
	n.Ratelimit(t, "state", "--policy", "account", "--key", "Bob ").Want(t, 0, "key          bob\n", "remaining    1\n")
	n.Ratelimit(t, "override", "--policy", "account", "--key", "Bob", "--block").Want(t, 0, "key       Bob\n")
	n.Send(t, "POST", n.URL+"/b", "email=Bob", ofForm).Want(t, 429, caddytest.Any)
	n.Send(t, "POST", n.URL+"/a", "email=Bob", ofForm).Want(t, 200, "ok")
}
