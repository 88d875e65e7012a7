package requests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// rpcBatch is a batch of so many calls of JSON-RPC.
func rpcBatch(calls int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(`{"jsonrpc":"2.0","method":"add","params":[1,{"method":2}],"id":1},`, calls), ",") + "]"
}

// queryBatch is a batch of so many queries of GraphQL. Their aliases count nothing.
func queryBatch(calls int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(`{"query":"{a: shop {name} b: shop {name}}"},`, calls), ",") + "]"
}

// tells is the body of a denial that says what is left of 10, how much the request may take, and this.
func tells(left, needed int, text string) string {
	return fmt.Sprintf(`*"detail":"Too many requests. %d of 10 are left, this request may take %d. %s"*`, left, needed, text)
}

// never is what a denial says of a request that never passes.
func never(largest int) string {
	return fmt.Sprintf("The largest one that can pass takes %d.", largest)
}

// TestBody_calls_nodes has two nodes take the calls of batches from one quota on Redis.
func TestBody_calls_nodes(t *testing.T) {
	t.Parallel()
	config := caddytest.Config(caddytest.SharedRedis(t), `redis_ratelimit /rpc { name rpc; key {query.k}; limit 10; window 24h; weight calls }
	redis_ratelimit /reserved { name reserved; key {query.k}; limit 10; window 24h; weight calls; reserve 2 }
	respond ok`)
	one, two := caddytest.Start(t, config), caddytest.Start(t, config)
	for name, batch := range map[string]func(int) string{"rpc": rpcBatch, "graphql": queryBatch} {
		send := func(n *caddytest.Node, calls int) caddytest.Response {
			t.Helper()
			return n.Send(t, http.MethodPost, n.URL+"/rpc?k="+name, batch(calls), ofJSON)
		}
		caddytest.CheckQuota(t, send(one, 4).Want(t, http.StatusOK, "ok"), 10, 6)
		seven := caddytest.CheckRefusal(t, send(two, 7), http.StatusTooManyRequests)
		caddytest.CheckQuota(t, seven.Want(t, 0, tells(6, 7, "Try again in *")), 10, 6)
		send(two, 11).Want(t, http.StatusTooManyRequests, tells(6, 11, never(10)), "Retry-After:")
		caddytest.CheckQuota(t, send(two, 5).Want(t, http.StatusOK, "ok"), 10, 1)
		caddytest.CheckQuota(t, send(one, 1).Want(t, http.StatusOK, "ok"), 10, 0)
		send(one, 100).Want(t, http.StatusTooManyRequests, tells(0, 100, never(10)), "Retry-After:")
	}
	reserved := func(n *caddytest.Node, calls int) caddytest.Response {
		t.Helper()
		return n.Send(t, http.MethodPost, n.URL+"/reserved?k=a", rpcBatch(calls), ofJSON)
	}
	reserved(one, 9).Want(t, http.StatusTooManyRequests, tells(8, 9, never(8)), "Retry-After:")
	reserved(two, 8).Want(t, http.StatusOK, "ok", "X-Ratelimit-Remaining: 0")
}

// TestBody_calls weighs what holds one call, none, or cannot be read, with a fallback and without one.
func TestBody_calls(t *testing.T) {
	const (
		ofGraphQL = "Content-Type: application/graphql"
		ofText    = "Content-Type: text/plain"
		ofParts   = "Content-Type: multipart/form-data; boundary=x"
	)
	caddytest.OnEachStore(t, `redis_ratelimit /some { name some; key {query.k}; limit 2000000; window 24h; weight calls 20; body 16MiB }
	redis_ratelimit /none { name none; key {query.k}; limit 2000000; window 24h; weight calls }
	redis_ratelimit /look* { name look; key {query.k}; limit 100; window 24h; weight calls 20; count path /look/take }
	respond ok`, func(t *testing.T, n *caddytest.Node, _ string) {
		large := rpcBatch(20_000) // above the 1 MiB that are read by default
		for _, test := range []struct {
			method, body, contentType string
			some, none                string // what is left
		}{
			{http.MethodPost, rpcBatch(3), ofJSON, "1999997", "1999997"},
			{http.MethodPost, queryBatch(100), "Content-Type: application/json; charset=utf-8", "1999900", "1999900"},
			{http.MethodPost, " \n[" + rpcBatch(2) + ",{\"Que\\u0072y\":0}]\n", ofJSON, "1999997", "1999997"},
			{http.MethodPost, "[" + strings.Repeat(`{"query":""},`, 1_000_000) + "0]", ofJSON, "1000000", "1999999"},
			{http.MethodPost, large, ofJSON, "1980000", "1999999"},
			{http.MethodPost, `{"query":"{a}"}`, ofJSON, "1999999", "1999999"},
			{http.MethodPost, `[{"jsonrpc":"2.0","id":1,"result":{"method":"a"}},{"id":2}]`, ofJSON, "1999999", "1999999"},
			{http.MethodPost, "", ofJSON, "1999999", "1999999"},
			{http.MethodGet, "", "Accept: */*", "1999999", "1999999"},
			{http.MethodGet, rpcBatch(4), ofJSON, "1999996", "1999996"}, // some applications read it
			{http.MethodDelete, "", "Accept: */*", "1999999", "1999999"},
			{http.MethodPost, "{a}", ofGraphQL, "1999980", "1999999"},
			{http.MethodPost, rpcBatch(50), ofText, "1999980", "1999999"},
			{http.MethodPost, rpcBatch(50), "Accept: */*", "1999980", "1999999"},
			{http.MethodPost, "query=%7Ba%7D", ofForm, "1999980", "1999999"},
			{http.MethodPost, "--x--\r\n", ofParts, "1999980", "1999999"},
			{http.MethodPost, rpcBatch(50)[1:], ofJSON, "1999980", "1999999"},
			{http.MethodPost, strings.TrimSuffix(rpcBatch(50), "]"), ofJSON, "1999980", "1999999"},
			{http.MethodPost, "\ufeff" + rpcBatch(50), ofJSON, "1999980", "1999999"},
			{http.MethodPost, strings.Repeat("[", 600) + strings.Repeat("]", 600), ofJSON, "1999980", "1999999"},
			{http.MethodPost, `[{"method":9223372036854775807,"id":1e999,"limit":1e18}]`, ofJSON, "1999999", "1999999"},
		} {
			name := test.body[:min(40, len(test.body))]
			for path, want := range map[string]string{"/some": test.some, "/none": test.none} {
				a := n.Send(t, test.method, n.URL+path+"?k="+test.method+path, test.body, test.contentType)
				a.Want(t, http.StatusOK, "ok", "X-Ratelimit-Remaining: "+want)
				n.Ratelimit(t, "reset", "--policy", path[1:], "--key", test.method+path).Want(t, 0)
				assert.ErrorIf(t, t.Failed(), "behind %s of %q to %s", test.contentType, name, path)
			}
		}
		for range 3 {
			n.Send(t, http.MethodPost, n.URL+"/look?k=a", rpcBatch(90), ofJSON).Want(t, http.StatusOK, "ok") // which takes none
		}
		n.Send(t, http.MethodPost, n.URL+"/look/take?k=a", rpcBatch(100), ofJSON).Want(t, http.StatusOK, "ok", "X-Ratelimit-Remaining: 0")
		for reason, times := range map[string]float64{"type": 4, "no_type": 1, "syntax": 2, "byte_order_mark": 1, "depth": 1, "size": 0} {
			n.CheckMetric(t, `invalid_values_total{option="weight",policy="some",reason="`+reason+`"}`, times)
		}
		n.CheckMetric(t, `invalid_values_total{option="weight",policy="none",reason="size"}`, 2)
	})
}

// TestBody_calls_passes has bodies go on as they came, whatever they weigh.
func TestBody_calls_passes(t *testing.T) {
	n := caddytest.InProcess(t, "redis_ratelimit same 100 24h { weight calls 9 }\nrespond {http.request.body}")
	for _, body := range []string{rpcBatch(5), rpcBatch(5)[1:], " " + queryBatch(1) + "\n"} {
		n.Send(t, http.MethodPost, n.URL, body, ofJSON).Want(t, http.StatusOK, body)
	}
}
