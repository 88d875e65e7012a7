package admin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// waitingSite is a site whose requests wait for two places of their key.
const waitingSite = `redis_ratelimit {
		policy gpu {
			key {query.k}
			max_concurrent 2
			wait 1m 50 by {query.user}
		}
	}
	reverse_proxy `

// startWaiting starts a node on which two requests of the key a run and two wait. The requests end with the test.
func startWaiting(t *testing.T, option string) (*caddytest.Node, *caddytest.Holder) {
	t.Helper()
	upstream := caddytest.NewHolder(t)
	n := caddytest.Start(t, caddytest.Config(option, waitingSite+upstream.Addr))
	n.CheckMetric(t, `waiting{policy="gpu"}`, 0)
	for _, user := range []string{"1", "2"} {
		upstream.Begin(t, n, "/?k=a&user="+user)
	}
	for i, user := range []string{"1", "2"} {
		n.Hold(t, "/?k=a&user="+user)
		n.CheckMetric(t, `waiting{policy="gpu"}`, float64(i+1))
	}
	return n, upstream
}

// TestWaiting_metrics counts requests while they wait, and by what became of them.
func TestWaiting_metrics(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n, upstream := startWaiting(t, option)
		n.CheckMetric(t, "held_requests", 2)
		n.CheckMetric(t, `wait_seconds_count{outcome="started",policy="gpu"}`, 2)
		upstream.EndOne()
		n.CheckMetric(t, `wait_seconds_count{outcome="started",policy="gpu"}`, 3)
		n.CheckMetric(t, `waiting{policy="gpu"}`, 1)
		upstream.EndAll()
		n.CheckMetric(t, `wait_seconds_count{outcome="started",policy="gpu"}`, 4)
		n.CheckMetric(t, `waiting{policy="gpu"}`, 0)
		n.CheckMetric(t, `running{policy="gpu"}`, 0)
	})
}

// waitsReport is what policies and state tell of requests that wait.
type waitsReport struct {
	Requests int
	Oldest   float64
}

// TestWaiting_commands shows what waits, in numbers and in words.
func TestWaiting_commands(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		n, _ := startWaiting(t, option)
		n.Ratelimit(t, "policies").Want(t, 0, `
gpu: 2 requests at once for each query parameter k
  key           {http.request.uri.query.k}
  wait          1 min, up to 50 of a key on a node, by
                {http.request.uri.query.user}
  running here  2
  waiting here  2, the oldest for `)
		n.Ask(t, http.MethodGet, "policies", "").Want(t, 0,
			`*"wait":{"longest":60,"most":50,"by":"{http.request.uri.query.user}"}*"waiting":{"requests":2,"oldest":*`)
		state := caddytest.State[struct {
			Waiting waitsReport
			Node    string
			Keys    []struct {
				Value struct {
					Running int
					Nodes   []struct{ Node string }
					Slots   int
					Claim   struct {
						Node  string
						Units int
						Age   float64
					}
				}
			}
		}](t, n, "gpu", "a")
		assert.ErrorIf(t, state.Waiting.Requests != 2 || state.Waiting.Oldest <= 0, "the key waits: %+v", state)
		idle := caddytest.State[struct{ Waiting waitsReport }](t, n, "gpu", "b")
		assert.Equal(t, idle.Waiting, waitsReport{}, "what waits for another key")
		e := n.Ratelimit(t, "state", "--policy", "gpu", "--key", "a")
		e.Want(t, 0, "\nwaiting here  2, the oldest for ")
		if source == "memory" {
			return
		}
		e.Want(t, 0, "running=2 slots=2", "NEXT PLACE FOR", "  1 unit, its turn ", " old  this node\n")
		v := state.Keys[0].Value
		assert.ErrorIf(t, v.Running != 2 || len(v.Nodes) != 1 || v.Slots != 2, "the value is %+v", v)
		assert.ErrorIf(t, v.Claim.Node != state.Node || v.Claim.Units != 1 || v.Claim.Age <= 0, "the claim of %s is %+v", state.Node, v.Claim)
	})
}

// TestWaiting_explain says if a request would wait, behind how many, and by which value.
func TestWaiting_explain(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		n, _ := startWaiting(t, option)
		e := n.Explain(t, "/?k=a&user=3", "")
		assert.ErrorIf(t, e.Decision != "waits" || e.Policies[0].Decision != "waits" || e.Policies[0].Reason != "" || e.Policies[0].Source != source,
			"a request of a full key is explained as %+v", e)
		n.Ratelimit(t, "explain", "--url", n.URL+"/?k=a&user=3").Want(t, 0, ": would wait for its turn\n", "  would wait  ",
			"\ngpu: waits for 1 unit of the 2 that may run, for up to 1 min; waiting here: 2, the oldest for ", ", of at most 50; its turn goes by the value '3'\n")
		n.Ratelimit(t, "explain", "--url", n.URL+"/?k=b").Want(t, 0, ": allowed\n",
			"\ngpu: would wait if 2 units ran, for up to 1 min; waiting here: 0, of at most 50; its turn goes by the value ''\n")
		n.Ratelimit(t, "top").Want(t, 0, "no key was denied")
		n.Override(t, http.StatusOK, `{"policy":"gpu","key":"a","block":true}`)
		e = n.Explain(t, "/?k=a&user=3", "")
		assert.ErrorIf(t, e.Decision != "denied" || e.Policies[0].Reason != "block", "a request of a blocked key is explained as %+v", e)
	})
}

// TestWaiting_explain_full tells that no more may wait, unless one of the value with the most is pushed out.
func TestWaiting_explain_full(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		upstream := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option, strings.NewReplacer("max_concurrent 2", "max_concurrent 1", "wait 1m 50", "wait 1m 2").Replace(waitingSite)+upstream.Addr))
		upstream.Begin(t, n, "/?k=a&user=1")
		for i := range 2 {
			n.Hold(t, "/?k=a&user=1")
			n.CheckMetric(t, `waiting{policy="gpu"}`, float64(i+1))
		}
		n.Ratelimit(t, "explain", "--url", n.URL+"/?k=a&user=1").Want(t, 4, ": denied\n", "  too many running  ",
			"\ngpu: is refused, as no more may wait; waiting here: 2, the oldest for ", ", of at most 2; its turn goes by the value '1'\n")
		n.Ask(t, http.MethodPost, "explain", `{"url":"`+n.URL+`/?k=a&user=1","client_ip":"192.0.2.1"}`).Want(t, 0, `*"turn":{"requests":2,*"most":2,"longest":60,"value":"1","full":true}*`)
		e := n.Explain(t, "/?k=a&user=2", "")
		assert.Equal(t, e.Decision, "waits", "the decision about a value with none waiting")
	})
}

// TestWaiting_warnings has check tell of waits for each other, and of an outage in which all start.
func TestWaiting_warnings(t *testing.T) {
	t.Parallel()
	const snippets = `(gpu) {
	redis_ratelimit {
		policy gpu {
			max_concurrent 8
			wait 30s
		}
		MORE
	}
}
(php) {
	redis_ratelimit {
		policy php {
			max_concurrent 20
			wait 5s
		}
	}
}
`
	global, more := "", ""
	config := func(second string) []string {
		text := global + strings.Replace(snippets, "MORE", more, 1) + "http://127.0.0.1:8080 {\nroute {\nimport gpu\nimport php\n}\n}\n" +
			"http://127.0.0.1:8081 {\nroute {\n" + second + "\n}\n}\n"
		return []string{"check", "--config", caddytest.WriteCaddyfile(t, text)}
	}
	const both, outage = "in both orders", "start at once when Redis fails"
	e := caddytest.RunRatelimit(t, nil, config("import gpu\nimport php")...)
	assert.ErrorIf(t, strings.Contains(e.Stdout, "warning"), "one order: %v", e)
	caddytest.RunRatelimit(t, nil, config("import php\nimport gpu")...).Want(t, 1, `policies "gpu" and "php"`, both)
	more = "fail_mode open"
	e = caddytest.RunRatelimit(t, nil, config("import gpu")...)
	assert.ErrorIf(t, strings.Contains(e.Stdout, outage), "without Redis: %v", e)
	global = "{\nredis_ratelimit {\nredis redis://" + redistest.Shared(t).Addr + "\n}\n}\n"
	caddytest.RunRatelimit(t, nil, config("import gpu")...).Want(t, 1, `policy "gpu"`, outage, "-> write fail_mode local")
}

// TestWaiting_overrides changes the limit of a key while requests wait, and blocks it: both hold at a request's turn, and
// the commands show both.
func TestWaiting_overrides(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n, upstream := startWaiting(t, option)
		n.Ratelimit(t, "override", "--policy", "gpu", "--key", "a", "--limit", "3").Want(t, 0, "limit 3")
		n.CheckMetric(t, `waiting{policy="gpu"}`, 1)
		upstream.WaitRunning(t, 3)
		n.Ratelimit(t, "explain", "--url", n.URL+"/?k=a&user=3").Want(t, 0, "  would wait  ", "waits for 1 unit of the 3 that may run", "waiting here: 1, ")
		n.Ratelimit(t, "override", "--policy", "gpu", "--key", "a", "--limit", "1").Want(t, 0, "limit 1")
		n.Ratelimit(t, "state", "--policy", "gpu", "--key", "a").Want(t, 0, "limit         1\n", "remaining     0\n", "waiting here  1, ")
		n.Ratelimit(t, "override", "--policy", "gpu", "--key", "a", "--block").Want(t, 0, "block")
		n.CheckMetric(t, `wait_seconds_count{outcome="refused",policy="gpu"}`, 1)
		n.CheckMetric(t, `waiting{policy="gpu"}`, 0)
		now, _ := upstream.Running()
		assert.Equal(t, now, 3, "requests that run on")
	})
}
