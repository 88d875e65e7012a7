package reliability

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// overrideNode starts a node whose policy api admits two requests a day of a key.
func overrideNode(t *testing.T, options string) *caddytest.Node {
	t.Helper()
	return caddytest.Start(t, caddytest.Quietly(caddytest.Config("redis_ratelimit {\ntimeout 10s\n"+options+"\n}", caddytest.LimitedSite)))
}

// waitForDecision waits until a node answers a key so.
func waitForDecision(t *testing.T, n *caddytest.Node, key, decision string) {
	t.Helper()
	assert.Retry(t, decision+" for "+key, func() (again bool, seen any) {
		a := n.Get(t, "/", "X-Key: "+key)
		return !strings.HasPrefix(a.Body, decision), a
	})
}

// load sends requests of 4 clients with keys of their own to both nodes until it is stopped. None of these keys has an
// override: a policy of 2 a day denies them, and one answer by anything but Redis or a remembered denial is wrong.
func load(t *testing.T, nodes ...*caddytest.Node) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			admitted := 0
			pace := time.NewTicker(10 * caddytest.RequestPace)
			defer pace.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				<-pace.C
				node := nodes[n%len(nodes)]
				a, err := node.Try(http.MethodGet, node.URL+"/", "", fmt.Sprintf("X-Key: other%d", i))
				if a.Body == "allowed redis" {
					admitted++
				} else if err != nil || !a.DeniedByRedis() {
					t.Errorf("got %v, %v", a, err)
					return
				}
			}
			assert.Equal(t, admitted, 2, "client %d: the number of requests that passed", i)
		})
	}
	t.Cleanup(group.Wait)
	return func() {
		cancel()
		group.Wait()
	}
}

// TestOverride_twoNodes changes overrides on one node while both serve. The other applies them too.
func TestOverride_twoNodes(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]func(t *testing.T) string{
		"standalone": func(t *testing.T) string { return "redis redis://" + redistest.Start(t).Addr },
		"hashed":     func(t *testing.T) string { return "redis redis://" + redistest.Start(t).Addr + "\nhash_keys secret" },
		"sentinel": func(t *testing.T) string {
			return "redis {\nmode sentinel\nmaster main\naddress " + redistest.StartSentinel(t, redistest.Start(t), "main").Addr + "\n}"
		},
		"cluster": func(t *testing.T) string {
			return "redis {\nmode cluster\naddress " + redistest.StartCluster(t)[0].Addr + "\n}"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := options(t)
			a, b := overrideNode(t, text), overrideNode(t, text)
			stop := load(t, a, b)
			for range 3 {
				waitForDecision(t, b, "acme", "denied")
			}
			for _, step := range []struct{ body, decision string }{
				{`{"policy":"api","key":"acme","block":true}`, "denied override"},
				{`{"policy":"api","key":"acme","exempt":true,"for":"1h"}`, "exempt override"},
				{`{"policy":"api","key":"acme","limit":50000}`, "allowed redis"},
				{`{"policy":"api","key":"acme","remove":true}`, "denied redis"},
			} {
				a.Override(t, 200, step.body)
				a.Get(t, "/", "X-Key: acme").Want(t, 0, step.decision+"*") // the node itself
				waitForDecision(t, b, "acme", strings.TrimSuffix(step.decision, " redis"))
			}
			stop()
		})
	}
}

// TestOverride_outage kills Redis and starts it again without any data. Nodes go on with the overrides, and
// Redis gets them back.
func TestOverride_outage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	text := "timeout 10s\nredis redis://" + server.Addr
	config := func(text string) string {
		return caddytest.Config("redis_ratelimit {\n"+text+"\n}", caddytest.LimitedSite)
	}
	a, b := caddytest.Start(t, config(text)), caddytest.Start(t, config(text))
	a.Override(t, 200, `{"policy":"api","key":"vip","limit":500,"for":"1h","note":"n"}`)
	a.Override(t, 200, `{"policy":"api","key":"bad","block":true}`)
	waitForDecision(t, b, "bad", "denied override") // with the other, which was set before it
	client := server.Client(t)
	assert.Equal(t, client.TTL(t.Context(), "rl:{%!overrides}:entries").Val(), -1, "the TTL of the entries, which have none,")
	server.Kill()
	for _, n := range []*caddytest.Node{a, b} {
		waitForDecision(t, n, "vip", "allowed fallback")
		n.Get(t, "/", "X-Key: vip").Want(t, 0, caddytest.Any, "X-RateLimit-Limit: 500")
		waitForDecision(t, n, "bad", "denied override")
		n.Override(t, 503, `{"policy":"api","key":"bad","remove":true}`)
		n.Ratelimit(t, "overrides").Want(t, 3, "bad", "vip", "limit 500")
	}
	a.Reload(t, config(text)+"\n# a reload in the outage")
	a.Reload(t, config(strings.Replace(text, "10s", "9s", 1))) // another store on the same Redis
	waitForDecision(t, a, "bad", "denied override")
	unread := func(n *caddytest.Node) int {
		return len(n.Log.Lines(func(l caddytest.LogLine) bool { return strings.HasPrefix(l.Message, "overrides cannot be read") }))
	}
	assert.Retry(t, "a poll fails", func() (bool, any) { return unread(b) == 0, "no line about it" })
	server.Run(t)
	assert.Retry(t, "Redis has the overrides", func() (again bool, seen any) {
		got := client.HLen(t.Context(), "rl:{%!overrides}:entries").Val()
		return got != 2, got
	})
	newcomer := caddytest.Start(t, config(text))
	waitForDecision(t, newcomer, "bad", "denied override")
	for _, n := range []*caddytest.Node{a, b, newcomer} {
		waitForDecision(t, n, "vip", "allowed redis")
	}
	assert.ErrorIf(t, unread(b) != 1 || unread(newcomer) != 0, "%d and %d lines say that overrides cannot be read, want 1 and 0", unread(b), unread(newcomer))
	assert.Retry(t, "a change is possible", func() (again bool, seen any) {
		got := b.Ask(t, http.MethodPost, "override", `{"policy":"api","key":"bad","remove":true}`)
		return got.Status != 200, got
	})
	// Its first requests may have come before it had read Redis, and have used the quota up.
	assert.Retry(t, "the block has ended", func() (again bool, seen any) {
		got := newcomer.Get(t, "/", "X-Key: bad")
		return got.Body == "denied override", got
	})
}

// TestOverride_node_only sets overrides on one of two nodes while Redis is away, over reloads. They end when Redis is
// back, and nothing of them is written there.
func TestOverride_node_only(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	config := func(timeout string) string {
		return caddytest.Config(caddytest.RedisAt(proxy.Addr, "timeout "+timeout), caddytest.LimitedSite)
	}
	a, b := caddytest.Start(t, config("10s")), caddytest.Start(t, config("10s"))
	a.Override(t, 200, `{"policy":"api","key":"kept","block":true}`)
	waitForDecision(t, b, "kept", "denied override")
	client := server.Client(t)
	before := client.HGetAll(t.Context(), "rl:{%!overrides}:entries").Val()
	proxy.Part()
	waitForDecision(t, a, "bad", "allowed fallback")
	a.Override(t, 200, `{"policy":"api","key":"bad","block":true,"note":"n"}`).Want(t, 0, `*"key":"bad","block":true,"note":"n","node_only":true,*"hint":"redis is away*`)
	a.Ratelimit(t, "override", "--policy", "api", "--key", "kept", "--exempt", "--for", "1h").Want(t, 0, "override  exempt on this node alone\n", "Hint: ")
	a.Override(t, 200, `{"policy":"api","key":"mistaken","block":true}`)
	waitForDecision(t, a, "mistaken", "denied override")
	a.Ratelimit(t, "override", "--policy", "api", "--key", "mistaken", "--remove").Want(t, 0, "override removed on this node alone\n")
	a.Override(t, 503, `{"policy":"api","key":"mistaken","remove":true}`)
	for _, body := range []string{`"key":"bad","limit":500`, `"all":true,"limit":500`, `"key":"other","remove":true`} {
		a.Override(t, 503, `{"policy":"api",`+body+`}`)
	}
	onNode := func() {
		t.Helper()
		waitForDecision(t, a, "bad", "denied override")
		waitForDecision(t, a, "kept", "exempt override")
		waitForDecision(t, b, "kept", "denied override")
		again := a.Get(t, "/", "X-Key: mistaken")
		assert.ErrorIf(t, strings.HasSuffix(again.Body, "override"), "a block that was removed applies: %v", again)
		a.Ratelimit(t, "overrides").Want(t, 3, "bad", "block on this node alone", "kept", "exempt on this node alone")
	}
	onNode()
	a.Reload(t, config("10s")+"\n# the same store")
	onNode()
	a.Reload(t, config("9s")) // another store on the same Redis
	onNode()
	a.Ratelimit(t, "state", "--policy", "api", "--key", "bad").Want(t, 3, "block on this node alone, until it is removed")
	proxy.Join()
	waitForDecision(t, a, "kept", "denied override")
	waitForDecision(t, b, "bad", "allowed redis")
	waitForDecision(t, a, "bad", "allowed redis") // no override refuses it any more
	assert.Retry(t, "the log says that they have ended", func() (again bool, seen any) {
		lines := a.Log.Lines(func(l caddytest.LogLine) bool { return strings.HasPrefix(l.Message, "redis is back; overrides") })
		return len(lines) == 0, "no line"
	})
	a.Ratelimit(t, "overrides").Want(t, 0, "kept")
	after := client.HGetAll(t.Context(), "rl:{%!overrides}:entries").Val()
	assert.ErrorIf(t, len(after) != 1 || len(before) != 1 || fmt.Sprint(after) != fmt.Sprint(before), "in Redis is %v, and was %v", after, before)
}

// TestOverride_range has a range of one of two nodes reach the other, which keeps it over an outage; one that is set in the
// outage stays on its node, over a reload, until Redis is back.
func TestOverride_range(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	config := func(timeout string) string {
		return caddytest.Config(caddytest.RedisAt(proxy.Addr, "timeout "+timeout)+"\nservers {\ntrusted_proxies static 127.0.0.0/8\n}",
			"redis_ratelimit {client_ip} 100 24h {\nname api\n}\n"+caddytest.ShowDecision)
	}
	a, b := caddytest.Start(t, config("10s")), caddytest.Start(t, config("10s"))
	wait := func(n *caddytest.Node, address, decision string) {
		t.Helper()
		assert.Retry(t, decision+" for "+address, func() (again bool, seen any) {
			got := n.Get(t, "/", "X-Forwarded-For: "+address)
			return got.Body != decision, got
		})
	}
	a.Override(t, 200, `{"policy":"api","range":"203.0.113.0/24","block":true}`)
	wait(b, "203.0.113.7", "denied override")
	proxy.Part()
	wait(a, "198.51.100.7", "allowed fallback")
	a.Ratelimit(t, "override", "--policy", "api", "--range", "198.51.100.0/24", "--block").Want(t, 0, "override  block on this node alone\n")
	a.Reload(t, config("9s"))
	for range 2 {
		wait(a, "198.51.100.7", "denied override")
		wait(a, "203.0.113.7", "denied override")
		wait(b, "203.0.113.7", "denied override")
	}
	b.Get(t, "/", "X-Forwarded-For: 198.51.100.7").Want(t, 0, "allowed fallback")
	proxy.Join()
	wait(a, "198.51.100.7", "allowed redis")
	wait(a, "203.0.113.7", "denied override")
	fields := server.Client(t).HKeys(t.Context(), "rl:{%!overrides}:entries").Val()
	assert.ErrorIf(t, len(fields) != 1 || fields[0] != "api/203.0.113.0/24", "in Redis is %q", fields)
	assert.Retry(t, "the range is removed", func() (again bool, seen any) {
		got := b.Ask(t, http.MethodPost, "override", `{"policy":"api","range":"203.0.113.0/24","remove":true}`)
		return got.Status != 200, got
	})
	wait(a, "203.0.113.7", "allowed redis")
}
