package admin

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// usedKey is a key that has used units.
type usedKey struct {
	Policy, Key string
	Used, Error int64
}

// usedReport is the answer to top?by=used.
type usedReport struct {
	Error string
	Nodes int
	Keys  []usedKey
}

// usedOf returns the keys that have used most, by policy and key.
func usedOf(t *testing.T, n *caddytest.Node, query string) map[string]int64 {
	t.Helper()
	report := caddytest.ParseJSON[usedReport](t, n.Ask(t, "GET", "top?by=used"+query, ""))
	used := map[string]int64{}
	for _, k := range report.Keys {
		used[k.Policy+" "+k.Key] = k.Used
		assert.ErrorIf(t, k.Error != 0, "few requests are counted with an error: %+v", k)
	}
	assert.ErrorIf(t, report.Nodes != 1 || report.Error != "", "%+v", report)
	return used
}

// TestUsed counts what requests have used in the end: weights, less what a response gave back, with what it was charged
// besides. What was denied, or would have been, has used nothing.
func TestUsed(t *testing.T) {
	const site = `
	redis_ratelimit {
		policy weighed { key {query.k}; match path /weighed; limit 10; window 24h; weight 3 }
		policy failed { key {query.k}; match path /failed; limit 10; window 24h; count_if status 4xx }
		policy cost { key {query.k}; match path /cost; limit 1000; window 24h; cost {query.cost} }
		policy estimate { key {query.k}; match path /cost; limit 1000; window 24h; weight 50; cost {query.cost} }
		policy tried { key {query.k}; match path /tried; limit 2; window 24h; dry_run }
		policy running { key {query.k}; match path /running; max_concurrent 1 }
		policy other { key {query.k}; match path /weighed; limit 1000; window 24h }
	}
	@right { path /failed; query right=1 }
	handle @right { respond right 200 }
	handle /failed { respond wrong 401 }
	handle { respond ok }`
	caddytest.OnEachStore(t, site, func(t *testing.T, n *caddytest.Node, _ string) {
		n.GetTimes(t, 5, "/weighed?k=a") // three pass
		n.GetTimes(t, 2, "/failed?k=a")
		n.GetTimes(t, 4, "/failed?k=a&right=1")
		n.Get(t, "/cost?k=a&cost=7")
		n.Get(t, "/cost?k=a&cost=90")
		n.GetTimes(t, 5, "/tried?k=a")
		n.GetTimes(t, 4, "/running?k=a")
		n.Get(t, "/running?k=b")
		want := map[string]int64{
			"weighed a": 9, "other a": 3, "failed a": 2, "cost a": 97, "estimate a": 97, "tried a": 2, "running a": 4, "running b": 1,
		}
		assert.Retry(t, "all is settled", func() (again bool, seen any) {
			used := usedOf(t, n, "")
			return fmt.Sprint(used) != fmt.Sprint(want), used
		})
		assert.Equal(t, usedOf(t, n, "&policy=running&n=1"), map[string]int64{"running a": 4}, "the first of one policy")
		n.Ratelimit(t, "top", "--used").Want(t, 0, " on this node\n", "USED  ±ERROR  POLICY    KEY\n", "  97      ±0  cost      a\n", "   1      ±0  running   b\n")
		n.Ratelimit(t, "top", "--used", "--policy", "weighed", "-n", "1", "--json").Want(t, 0, `"used":9`)
	})
}

// TestUsed_refused asks in vain.
func TestUsed_refused(t *testing.T) {
	n := caddytest.InProcess(t, unexamined("redis_ratelimit {query.k} 5 24h {\nname api\n}\nrespond ok"))
	n.Ratelimit(t, "top", "--used").Want(t, 0, "no key has used any units\n")
	n.Ratelimit(t, "top", "--all-nodes").Want(t, 1, "--all-nodes is for --used")
	n.Ratelimit(t, "top", "--used", "--policy", "none").Want(t, 2, "none")
	n.Ratelimit(t, "top", "--used", "-n", "0").Want(t, 2, "n:")
	n.Get(t, "/?k=%1b%5b31m%ff")
	n.Ratelimit(t, "top", "--used", "--all-nodes").Want(t, 0, // no Redis
		"on this node; no other one answered\n", `   1      ±0  api     \x1b[31m\xff`)
	for _, query := range []string{"by=else", "nodes=all", "by=denied&nodes=all", "by=used&nodes=some", "by=used&nodes=all&n=x"} {
		n.Ask(t, "GET", "top?"+query, "").Want(t, http.StatusBadRequest, caddytest.Any)
	}
}
