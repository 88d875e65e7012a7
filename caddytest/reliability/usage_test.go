package reliability

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// usedSite has two policies, whose keys have any bytes: those of a variable stand in keys as they were sent.
const usedSite = "vars k {query.k}\nredis_ratelimit {\npolicy api {\nkey {vars.k}\nlimit 1000\nwindow 24h\n}\npolicy odd {\nkey {vars.k}|{path}\nlimit 1000\nwindow 24h\n}\n}" +
	caddytest.ShowDecision

// waitForUsed asks for what all nodes have used until so many nodes have answered, and returns the lines.
func waitForUsed(t *testing.T, n *caddytest.Node, nodes int, args ...string) (lines []string) {
	t.Helper()
	assert.Retry(t, fmt.Sprintf("%d nodes answer", nodes), func() (again bool, seen any) {
		e := n.Ratelimit(t, append([]string{"top", "--used", "--all-nodes"}, args...)...)
		lines = strings.Split(strings.TrimSpace(e.Stdout), "\n")
		return !strings.Contains(lines[0], fmt.Sprintf(" on %d nodes", nodes)), e
	})
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return lines
}

// TestUsed_nodes has three nodes, on a single Redis, on a Cluster and with hashed keys, whose clients stay below their limits.
// Two operators ask at once; later a node comes, and one goes.
func TestUsed_nodes(t *testing.T) {
	t.Parallel()
	hashed := strings.TrimSuffix(caddytest.SharedRedis(t), "}") + "hash_keys {env.HASH_SECRET}\n}"
	for name, option := range map[string]string{"single": caddytest.SharedRedis(t), "cluster": caddytest.OnCluster(t), "hashed": hashed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := caddytest.Config(option, usedSite)
			start := func() *caddytest.Node { return caddytest.Start(t, text, "HASH_SECRET=secret-of-sixteen-bytes") }
			nodes := []*caddytest.Node{start(), start(), start()}
			for i, n := range nodes {
				n.GetTimes(t, 10*(i+1), "/?k=everywhere")
				n.GetTimes(t, 3, fmt.Sprintf("/?k=only-%d", i))
				n.GetTimes(t, 4, "/?k=%ff%1b%7b")
			}
			var asks sync.WaitGroup
			for i, n := range nodes[:2] {
				asks.Go(func() {
					lines := waitForUsed(t, n, 3, "--policy", "api")
					assert.FatalIf(t, len(lines) < 8 || lines[3] != "60 ±0 api everywhere", "node %d shows %q", i, lines)
					assert.ErrorIf(t, !strings.HasPrefix(lines[4], "12 ±0 api ") || !strings.Contains(lines[4], `\x`), "node %d shows %q", i, lines)
					shown := strings.Join(lines, "\n")
					for j := range nodes {
						known := strings.Contains(shown, fmt.Sprintf("3 ±0 api only-%d", j))
						assert.ErrorIf(t, known != (name != "hashed" || i == j), "node %d knows the key of %d: %v\n%s", i, j, known, shown)
					}
					assert.ErrorIf(t, name == "hashed" && strings.Count(shown, "3 ±0 api %~") != 2, "node %d shows no hashes: %s", i, shown)
				})
			}
			asks.Wait()
			assert.Equal(t, len(waitForUsed(t, nodes[2], 3)), 3+2*5, "lines of both policies")
			late := start()
			late.Get(t, "/?k=everywhere")
			lines := waitForUsed(t, late, 4, "-n", "1")
			assert.Equal(t, lines[3:], []string{"61 ±0 api everywhere"}, "the first of four nodes")
			nodes[0].Stop(t)
			lines = waitForUsed(t, late, 3, "-n", "1")
			assert.Equal(t, lines[3:], []string{"51 ±0 api everywhere"}, "the first once a node has gone")
		})
	}
}

// TestUsed_rights asks with the rights of decisions alone, and with overrides as before.
func TestUsed_rights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	caddytest.RestrictUser(t, []*redistest.Server{server}, strings.Fields("ping evalsha eval time get set"))
	text := caddytest.Config("redis_ratelimit {\ntimeout 10s\nredis redis://limiter:secret@"+server.Addr+"\n}", usedSite)
	a, b := caddytest.Start(t, text), caddytest.Start(t, text)
	a.Get(t, "/?k=x").Want(t, http.StatusOK, "allowed redis")
	b.Get(t, "/?k=x").Want(t, http.StatusOK, "allowed redis")
	assert.Equal(t, waitForUsed(t, a, 2, "--policy", "api")[3:], []string{"2 ±0 api x"}, "keys")
	assert.Equal(t, caddytest.RefusedByACL(t, []*redistest.Server{server}), nil, "what the server refuses")
}

// TestUsed_redisDown shows what this node knows while Redis does not answer.
func TestUsed_redisDown(t *testing.T) {
	n, server := caddytest.OnRedis(t, "timeout 10s", usedSite)
	n.GetTimes(t, 3, "/?k=x")
	server.Kill()
	n.Ratelimit(t, "top", "--used", "--all-nodes", "--policy", "api").Want(t, 3, "on this node; no other one answered\n", "   3      ±0  api     x\n", "Redis cannot be asked")
	n.Ratelimit(t, "top", "--used", "--policy", "api").Want(t, 0, "on this node\n", "   3      ±0  api     x\n")
	a := n.Ask(t, "GET", "top?by=used&nodes=all", "")
	a.Want(t, http.StatusServiceUnavailable, `*"nodes":1*`)
	n.Get(t, "/?k=y").Want(t, http.StatusOK, "allowed fallback")
	n.Ratelimit(t, "top", "--used", "--policy", "api").Want(t, 0, "   1      ±0  api     y\n")
}

// TestUsed_overrides has questions change no override, and write no line into a log.
func TestUsed_overrides(t *testing.T) {
	t.Parallel()
	text := caddytest.Config(caddytest.SharedRedis(t), usedSite)
	a, b := caddytest.Start(t, text), caddytest.Start(t, text)
	a.Override(t, http.StatusOK, `{"policy":"api","key":"blocked","block":true}`)
	a.Get(t, "/?k=blocked").Want(t, http.StatusTooManyRequests, caddytest.Any)
	a.Get(t, "/?k=x")
	assert.Equal(t, waitForUsed(t, b, 2, "--policy", "api")[3:], []string{"1 ±0 api x"}, "keys; the blocked one has used nothing")
	a.Override(t, http.StatusOK, `{"policy":"api","key":"blocked","remove":true}`)
	b.Await(t, "/?k=blocked", http.StatusOK, caddytest.Any)
	for _, n := range []*caddytest.Node{a, b} {
		lines := slices.DeleteFunc(n.Log.Lines(caddytest.Ours), func(l caddytest.LogLine) bool { return l.Level == "info" || l.Level == "debug" })
		assert.ErrorIf(t, len(lines) > 0, "%v", lines)
	}
}
