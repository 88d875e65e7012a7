package requests

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// costlySite is a directive that costs what responses tell, and one that shows the quota unchanged.
func costlySite(t *testing.T, algorithm, more string) string {
	t.Helper()
	return `redis_ratelimit /ask* {query.k} 1000 400d { algorithm ` + algorithm + `; cost {http.reverse_proxy.header.X-Tokens-Used} 70; ` + more + ` }
	redis_ratelimit /look {query.k} 1000 400d { algorithm ` + algorithm + `; count_if status 418 }
	reverse_proxy ` + newModel(t).addr
}

// TestCost_afterwards corrects weights by the tokens of responses, with every algorithm.
func TestCost_afterwards(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		n, invalid := caddytest.Start(t, caddytest.Config("", "")), 0.0
		for _, algorithm := range []string{"sliding_window_counter", "sliding_window_log", "fixed_window", "token_bucket", "leaky_bucket", "gcra"} {
			for at, weight := range []string{"weight 100", "weight 1"} {
				key := "?k=" + algorithm + strconv.Itoa(at)
				n.Reload(t, caddytest.Config(option, costlySite(t, algorithm, weight)))
				for _, step := range []struct{ path, remain, remainOfOne string }{
					{"&tokens=100", "900", "900"},              // a weight of 100 was right
					{"&tokens=40", "860", "860"},               // 60 are refunded
					{"&tokens=250", "610", "610"},              // 150 are charged
					{"&tokens=0", "610", "609"},                // a weight of 1 is never given back
					{"", "540", "539"},                         // the fallback
					{"&tokens=many", "470", "469"},             // the same
					{"&tokens=-500", "400", "399"},             // the same: units are not earned
					{"&tokens=4503599627370497", "330", "329"}, // the same: above 2^52
					{"&tokens=4503599627370496", "0", "0"},     // into debt
				} {
					n.Get(t, "/ask"+key+step.path).Want(t, http.StatusOK, caddytest.Any, "X-Ratelimit-Limit: 1000")
					checkRemaining(t, n, "/look"+key, []string{step.remain, step.remainOfOne}[at])
				}
				n.Get(t, "/ask"+key).Want(t, http.StatusTooManyRequests, caddytest.Any) // the debt is to be paid first
				invalid += 4
				n.CheckMetric(t, `invalid_values_total{option="cost",policy="default"}`, invalid)
			}
		}
	})
}

// TestCost_countIf refunds everything if the response does not count, and settles if it does.
func TestCost_countIf(t *testing.T) {
	caddytest.OnEachStore(t, costlySite(t, "token_bucket", "weight 100\ncount_if header X-Tokens-Used *"), func(t *testing.T, n *caddytest.Node, _ string) {
		n.Get(t, "/ask?k=a&tokens=40")
		checkRemaining(t, n, "/look?k=a", "960")
		n.Get(t, "/ask?k=a&tokens=150")
		checkRemaining(t, n, "/look?k=a", "810")
		n.Get(t, "/ask?k=a").Want(t, 0, caddytest.Any, "X-Ratelimit-Remaining: 810") // the refund in the headers
		checkRemaining(t, n, "/look?k=a", "810")
		n.CheckMetric(t, `settled_units_total{direction="refunded",policy="default"}`, 60)
		n.CheckMetric(t, `settled_units_total{direction="charged",policy="default"}`, 50)
	})
}

// TestCost_several settles each policy of a request by itself: of one handler, of a handler further in, and of a dry
// run. The site denies every second request further in: its estimates are given back.
func TestCost_several(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		policy := func(name, more string) string {
			return "policy " + name + " {\nkey {query.k}\nlimit 1000\nwindow 400d\nalgorithm fixed_window\n" + more + "\n}\n"
		}
		tokens, bytes := "cost {http.reverse_proxy.header.X-Tokens-Used} 70", "cost response_bytes"
		look := func(name string) string {
			return "redis_ratelimit /" + name + " {\n" + policy(name, "count_if status 418") + "}\n"
		}
		n := caddytest.Start(t, caddytest.Config(option, "route {\n"+
			"redis_ratelimit /ask {\n"+policy("one", "weight 100\n"+tokens)+policy("two", "weight 10\n"+bytes)+policy("three", bytes)+policy("four", "")+"}\n"+
			"redis_ratelimit /ask {\n"+policy("inner", "weight 100\n"+tokens)+policy("pretended", "weight 100\ndry_run\n"+tokens)+"}\n"+
			"redis_ratelimit /ask {query.k} 1 24h {\nname last\nmatch {\nquery deny=1\n}\n}\n"+
			look("one")+look("two")+look("three")+look("four")+look("inner")+look("pretended")+
			"reverse_proxy "+newModel(t).addr+"\n}\nhandle_errors {\nrespond \"a body that is not charged\"\n}"))
		n.Get(t, "/ask?k=a&tokens=40&bytes=200")
		for name, left := range map[string]string{"one": "960", "two": "800", "three": "800", "four": "999", "inner": "960", "pretended": "960"} {
			checkRemaining(t, n, "/"+name+"?k=a", left)
		}
		n.Get(t, "/ask?k=b&deny=1&tokens=40&bytes=200")
		checkRemaining(t, n, "/inner?k=b", "960")
		n.Get(t, "/ask?k=b&deny=1").Want(t, http.StatusTooManyRequests, caddytest.Any)
		n.Get(t, "/ask?k=end&tokens=100&bytes=10") // what is settled before it is done by then
		for name, left := range map[string]string{"one": "960", "two": "800", "three": "799", "inner": "960", "pretended": "960"} {
			checkRemaining(t, n, "/"+name+"?k=b", left)
		}
	})
}

// TestCost_denied takes nothing where the estimate does not fit, and settles nothing.
func TestCost_denied(t *testing.T) {
	n := caddytest.InProcess(t, `redis_ratelimit /ask {query.k} 150 24h {
		algorithm token_bucket
		weight 100
		cost {http.reverse_proxy.header.X-Tokens-Used} 70
		notify 40% 90%
	}
	redis_ratelimit /look {query.k} 150 24h { algorithm token_bucket; count_if status 418 }
	reverse_proxy `+newModel(t).addr)
	n.Get(t, "/ask?k=a&tokens=80")
	checkRemaining(t, n, "/look?k=a", "70")
	waitForThresholds(t, n, 40) // and not by the estimate
	n.Get(t, "/ask?k=a&tokens=0").Want(t, http.StatusTooManyRequests, caddytest.Any)
	checkRemaining(t, n, "/look?k=a", "70")
	n.Get(t, "/ask?k=b&tokens=140")
	checkRemaining(t, n, "/look?k=b", "10")
	waitForThresholds(t, n, 40, 40, 90) // by what was charged
	n.Ratelimit(t, "policies").Want(t, 0, "{http.reverse_proxy.header.X-Tokens-Used}, else 70")
	n.Ratelimit(t, "explain", "--url", n.URL+"/ask?k=a").Want(t, 4, "after the response it costs {http.reverse_proxy.header.X-Tokens-Used} in all")
}

// TestCost_innerRefusal has this module refuse further in, with a body that is not charged and in gRPC's form: the estimate
// is given back, a weight of 1 stays.
func TestCost_innerRefusal(t *testing.T) {
	outer := func(path, more string) string {
		return "redis_ratelimit " + path + " {query.k} 1000 400d { name outer; algorithm fixed_window; " + more + " }\n"
	}
	n := caddytest.WithoutRedis(t, "", "route {\n"+outer("/ask*", "weight 10; cost response_bytes")+outer("/look", "count_if status 418")+`
		redis_ratelimit /ask* {query.k} 1000 400d { name single; algorithm fixed_window; cost response_bytes }
		redis_ratelimit /ask/denied { name denied; limit {query.limit} 1; window 24h }
		redis_ratelimit /ask/closed { name closed; limit 1; window 24h; fail_mode closed }
		redis_ratelimit /ask/incomplete { name incomplete; key {header.X-Key}; limit 1; window 24h; on_empty_key reject }
		respond ok
	}`)
	for path, status := range map[string]int{"/ask/denied?limit=0&": 429, "/ask/closed?": 503, "/ask/incomplete?": 400} {
		n.Get(t, path+"k="+path[5:6]).Want(t, status, "*.")
		checkRemaining(t, n, "/look?k="+path[5:6], "1000")
		n.Get(t, path+"k="+path[5:6], "Content-Type: application/grpc").Want(t, http.StatusOK, "", "Grpc-Status: *")
		checkRemaining(t, n, "/look?k="+path[5:6], "1000")
		left := caddytest.ParseJSON[struct{ Remaining int64 }](t, n.Ask(t, http.MethodPost, "state", `{"policy":"single","key":"`+path[5:6]+`"}`)).Remaining
		assert.Equal(t, left, 998, "what is left of a weight of 1")
	}
}

// checkRemaining waits until a peek shows the remaining units.
func checkRemaining(t *testing.T, n *caddytest.Node, path, want string) {
	t.Helper()
	n.Await(t, path, 0, caddytest.Any, "X-Ratelimit-Remaining: "+want)
}

// TestCost_bytes_compressed has a handler outside of the compression, one inside of it, and clients that send HEAD.
func TestCost_bytes_compressed(t *testing.T) {
	t.Parallel()
	limit := func(path, name, more string) string {
		return `redis_ratelimit ` + path + ` {query.k} 10000 400d { name ` + name + `; algorithm fixed_window; ` + more + ` }
		`
	}
	n := caddytest.Start(t, caddytest.Config("", "route {\n"+limit("/get", "outer", "cost response_bytes")+"encode gzip\n"+limit("/get", "inner", "cost response_bytes")+
		limit("/outer", "outer", "count_if status 418")+limit("/inner", "inner", "count_if status 418")+`
		respond /get `+strings.Repeat("x", 5000)+`
	}`))
	n.Get(t, "/get?k=zipped", "Accept-Encoding: gzip")
	checkRemaining(t, n, "/inner?k=zipped", "5000")
	assert.Retry(t, "few bytes are charged outside", func() (again bool, seen any) {
		a := n.Get(t, "/outer?k=zipped")
		left, err := strconv.Atoi(a.Header.Get("X-Ratelimit-Remaining"))
		return err != nil || left < 9000 || left > 9990, a
	})
	n.Send(t, http.MethodHead, n.URL+"/get?k=head", "")
	n.Get(t, "/get?k=both", "Accept-Encoding: identity") // by then the other is charged too
	checkRemaining(t, n, "/outer?k=both", "5000")
	checkRemaining(t, n, "/inner?k=both", "5000")
	checkRemaining(t, n, "/inner?k=head", "9999")
	checkRemaining(t, n, "/outer?k=head", "9999")
}
