package admin

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// operation is a command with its expected output.
type operation struct {
	question string
	command  []string
	code     int
	says     []string
}

func checkOperation(t *testing.T, n *caddytest.Node, o operation) {
	t.Helper()
	output, code := n.Operate(t, o.command...)
	if code != o.code {
		t.Errorf("%s: exit code %d, want %d:\n%s", o.question, code, o.code, output)
	}
	for _, word := range o.says {
		if !strings.Contains(output, word) {
			t.Errorf("%s: no word of %q in:\n%s", o.question, word, output)
		}
	}
}

// operated is a site with a high and a low limit.
const operated = `redis_ratelimit {
		policy login {
			key {header.X-User}
			match {
				path /login
			}
			limit 3
			window 24h
		}
		policy everything {
			key {header.X-User}
			limit 1000
			window 24h
		}
	}` + caddytest.ShowDecision

// TestOperator_questions answers four questions by one command each: is the limiter working, who is being
// limited, why was this client refused, and how do I let it through now. It does so with Redis, without
// it, and while it is down.
func TestOperator_questions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		store, source    string
		working          string
		explained, reset int // exit codes
	}{
		{"redis", "redis", "breaker closed", 4, 0},
		{"memory", "memory", "memory", 4, 0},
		{"redis that is gone", "fallback", "does not decide", 3, 3},
	} {
		t.Run(test.store, func(t *testing.T) {
			t.Parallel()
			n := operatedNode(t, test.store)
			for range 5 {
				n.Get(t, "/login", "X-User: mallory")
			}
			n.Get(t, "/login", "X-User: alice")
			ask := []string{"explain", "--url", n.URL + "/login", "--client-ip", "192.0.2.7", "--header", "X-User: mallory"}
			checkOperation(t, n, operation{"is it working", []string{"policies"}, 0, []string{"login", "everything", "sliding_window_counter", test.working}})
			checkOperation(t, n, operation{"who is limited", []string{"top", "--policy", "login"}, 0, []string{"mallory", "2"}})
			checkOperation(t, n, operation{"why was it refused", ask, test.explained, []string{"denied", "mallory", "0/3", "login", test.source}})
			checkOperation(t, n, operation{"let it through", []string{"reset", "--policy", "login", "--key", "mallory"}, test.reset, []string{"1 quota reset"}})
			if a := n.Get(t, "/login", "X-User: mallory"); a.Status != 200 {
				t.Errorf("after the reset: %v", a)
			}
		})
	}
}

// operatedNode starts a node with that site, on a store.
func operatedNode(t *testing.T, store string) *caddytest.Node {
	t.Helper()
	if store == "memory" {
		return caddytest.Start(t, caddytest.Config("", operated))
	}
	server := redistest.Start(t)
	n := caddytest.Start(t, caddytest.Config(caddytest.PatientRedis(server), operated))
	if store == "redis" {
		caddytest.WaitForRedis(t, n, "/")
	} else {
		server.Kill()
	}
	return n
}
