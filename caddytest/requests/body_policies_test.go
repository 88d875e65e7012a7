package requests

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// bodyStep is a request with a body, and how it is answered. The type is JSON if the text begins as JSON does, and otherwise
// that of a form.
type bodyStep struct {
	path, text string
	status     int
	header     string // as [caddytest.Response.Want] takes it; empty: any
}

// send sends the step's request.
func (s bodyStep) send(t *testing.T, n *caddytest.Node) {
	t.Helper()
	kind := ofForm
	if strings.HasPrefix(s.text, "{") || strings.HasPrefix(s.text, "[") {
		kind = ofJSON
	}
	var headers []string
	if s.header != "" {
		headers = append(headers, s.header)
	}
	a := n.Send(t, http.MethodPost, n.URL+s.path, s.text, kind)
	a.Want(t, s.status, caddytest.Any, headers...)
	assert.ErrorIf(t, t.Failed() && len(s.text) < 200, "behind the body %s", s.text)
}

// TestBody_numbers takes limits, bursts, weights and running requests from bodies.
func TestBody_numbers(t *testing.T) {
	caddytest.OnEachStore(t, `redis_ratelimit /limit { name limit; key {query.k}; limit {json.plan.limit} 5; window 24h }
	redis_ratelimit /form { name form; key {query.k}; limit {form.plan[limit]} 5; window 24h }
	redis_ratelimit /unlimited { name unlimited; key {query.k}; limit {json.limit} unlimited; window 24h }
	redis_ratelimit /burst { name burst; key {query.k}; limit 100; window 24h; algorithm gcra; burst {json.burst} 3 }
	redis_ratelimit /weight { name weight; key {query.k}; limit 100; window 24h; weight {json.n} 7 }
	redis_ratelimit /running { name running; key {query.k}; max_concurrent {json.n} 4 }
	respond ok`, func(t *testing.T, n *caddytest.Node, _ string) {
		const limit, remaining = "X-Ratelimit-Limit: ", "X-Ratelimit-Remaining: "
		large := `{"plan":{"limit":9},"padding":"` + strings.Repeat("x", 1<<20) + `"}`
		for _, s := range []bodyStep{
			{"/limit?k=a", `{"plan":{"limit":9}}`, 200, limit + "9"},
			{"/limit?k=a", `{"plan":{"limit":"9"}}`, 200, limit + "9"},
			{"/limit?k=a", `{"plan":{"limit":9.0}}`, 200, limit + "9"},
			{"/limit?k=a", `{"plan":{"limit":9.5}}`, 200, limit + "5"},
			{"/limit?k=a", `{"plan":{"limit":-9}}`, 200, limit + "5"},
			{"/limit?k=b", `{"plan":{"limit":1e99}}`, 200, limit + "5"},
			{"/limit?k=b", `{"plan":{"limit":9,"limit":10}}`, 200, limit + "5"},
			{"/limit?k=b", `{"plan":{"limit":" 9"}}`, 200, limit + "5"},
			{"/limit?k=b", `{"plan":{"limit":null}}`, 200, limit + "5"},
			{"/limit?k=b", `{"plan":[9]}`, 200, limit + "5"},
			{"/limit?k=c", `[{"plan":{"limit":9}}]`, 200, limit + "5"},
			{"/limit?k=c", "plan[limit]=9", 200, limit + "5"},
			{"/limit?k=c&plan=1", `{"plan":{"limit":9}}`, 200, limit + "5"},
			{"/limit?k=c", large, 200, limit + "5"},
			{"/limit?k=c", `{"plan":{"limit":0}}`, 429, remaining + "0"},
			{"/form?k=a", "plan[limit]=8", 200, limit + "8"},
			{"/form?k=a", "plan%5Blimit%5D=8&x=1", 200, limit + "8"},
			{"/form?k=a", "plan.limit=8&plan[limit]=9", 200, limit + "5"},
			{"/unlimited?k=a", `{"limit":7}`, 200, limit + "7"},
			{"/unlimited?k=a", `{"limit":"unlimited"}`, 200, caddytest.NoQuota},
			{"/unlimited?k=a", `{}`, 200, caddytest.NoQuota},
			{"/burst?k=a", `{"burst":10}`, 200, limit + "10"},
			{"/burst?k=a", `{"burst":"ten"}`, 200, limit + "3"},
			{"/weight?k=a", `{"n":20}`, 200, remaining + "80"},
			{"/weight?k=a", `{"n":[20]}`, 200, remaining + "73"},
			{"/weight?k=a", `{"n":-20}`, 200, remaining + "72"},
			{"/weight?k=a", `{"n":80}`, 429, remaining + "72"},
			{"/running?k=a", `{"n":9}`, 200, limit + "9"},
			{"/running?k=a", `{"n":{}}`, 200, limit + "4"},
		} {
			s.send(t, n)
		}
		for series, want := range map[string]float64{
			`option="limit",policy="limit",reason="repeated_name"`: 1, `option="limit",policy="limit",reason="array"`: 2, `option="limit",policy="limit",reason="type"`: 1,
			`option="limit",policy="limit",reason="query"`: 1, `option="limit",policy="limit",reason="size"`: 1, `option="limit",policy="limit",reason="blank"`: 1,
			`option="limit",policy="limit",reason="value"`: 2, `option="limit",policy="limit",reason="number"`: 1,
			`option="limit",policy="form",reason="conflict"`: 1, `option="burst",policy="burst",reason="value"`: 1,
			`option="weight",policy="weight",reason="array"`: 1,
		} {
			n.CheckMetric(t, "invalid_values_total{"+series+"}", want)
		}
	})
}

// TestBody_emptyKey has bodies without a value meet each on_empty_key, by methods with a body and without one.
func TestBody_emptyKey(t *testing.T) {
	policy := func(name, more string) string {
		return "redis_ratelimit /" + name + " { name " + name + "; key {json.user}; limit 1000; window 1h; " + more + " }\n"
	}
	n := caddytest.InProcess(t, policy("client_ip", "on_empty_key client_ip")+policy("skip", "on_empty_key skip")+policy("reject", "on_empty_key reject")+
		policy("dry", "on_empty_key reject; dry_run")+policy("part", "on_empty_key reject; enforce 0%")+"respond ok")
	for _, test := range []struct {
		what, method, text, contentType string
		reject, skip                    int // the status, and 0 where skip leaves the policy out
	}{
		{"a value", http.MethodPost, `{"user":"bob"}`, ofJSON, 200, 200},
		{"no body", http.MethodGet, "", "X: y", 400, 0},
		{"no body", http.MethodHead, "", "X: y", 400, 0},
		{"no body", http.MethodPost, "", ofJSON, 400, 0},
		{"a body of GET", http.MethodGet, `{"user":"bob"}`, ofJSON, 200, 200},
		{"no value", http.MethodPost, `{}`, ofJSON, 400, 0},
		{"null", http.MethodPost, `{"user":null}`, ofJSON, 400, 0},
		{"an object", http.MethodPost, `{"user":{"user":"bob"}}`, ofJSON, 400, 0},
		{"blanks", http.MethodPost, `{"user":" \t"}`, ofJSON, 400, 0},
		{"an array", http.MethodPost, `{"user":["bob"]}`, ofJSON, 400, 400},
		{"another case", http.MethodPost, `{"User":"bob"}`, ofJSON, 400, 400},
		{"a control character", http.MethodPost, `{"user":"b\u0001b"}`, ofJSON, 400, 400},
		{"no JSON", http.MethodPost, `{"user":"bob"}}`, ofJSON, 400, 400},
		{"a form", http.MethodPost, `user=bob`, ofForm, 415, 415},
		{"no type", http.MethodPost, `{"user":"bob"}`, "X: y", 415, 415},
		{"another charset", http.MethodPost, `{"user":"bob"}`, ofJSON + "; charset=utf-16", 415, 415},
		{"too much", http.MethodPost, `{"user":"` + strings.Repeat("b", 1<<20) + `"}`, ofJSON, 413, 413},
	} {
		send := func(path string) caddytest.Response {
			return n.Send(t, test.method, n.URL+path, test.text, test.contentType)
		}
		assert.ErrorIf(t, send("/client_ip").Status != 200, "%s: on_empty_key client_ip refuses", test.what)
		a := send("/reject")
		assert.ErrorIf(t, a.Status != test.reject, "%s: on_empty_key reject answers %v, want %d", test.what, a, test.reject)
		a = send("/skip")
		assert.ErrorIf(t, test.skip == 0 && (a.Status != 200 || caddytest.HasQuota(a)) || test.skip != 0 && a.Status != test.skip,
			"%s: on_empty_key skip answers %v, want %d", test.what, a, test.skip)
		send("/dry").WantFree(t)
		send("/part").WantFree(t)
	}
	n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="dry"}`, 15)
	n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="part"}`, 15)
	n.CheckMetric(t, `decisions_total{decision="dry_run_allowed",policy="part"}`, 2)
}

// TestBody_rawKey keeps what is written in a key, and folds it otherwise, also in commands.
func TestBody_rawKey(t *testing.T) {
	caddytest.OnEachStore(t, `redis_ratelimit /folded { name folded; key {query.t}:{form.user}; limit 100; window 24h; on_empty_key reject }
	redis_ratelimit /raw { name raw; key {query.t}:{form.user}; limit 100; window 24h; on_empty_key reject; raw_key }
	respond ok`, func(t *testing.T, n *caddytest.Node, _ string) {
		for i, user := range []string{"bob@example.com", "BOB@example.com", "b%C3%B3b@example.com", "bob@example.com+", "+bob@example.com", "b%C2%ADob@example.com", "%EF%BC%A2ob@example.com"} {
			bodyStep{"/folded?t=1", "user=" + user, 200, "X-Ratelimit-Remaining: " + []string{"99", "98", "97", "96", "95", "94", "93"}[i]}.send(t, n)
			blank := strings.Contains(user, "+")
			bodyStep{"/raw?t=1", "user=" + user, map[bool]int{true: 400, false: 200}[blank], map[bool]string{true: caddytest.NoQuota, false: "X-Ratelimit-Remaining: 99"}[blank]}.send(t, n)
		}
		bodyStep{"/folded?t=2", "user=bob@example.com", 200, "X-Ratelimit-Remaining: 99"}.send(t, n)
		bodyStep{"/folded?t=", "user=bob@example.com", 400, ""}.send(t, n)
	})
}

// TestBody_matchers counts requests by what matchers make of a body.
func TestBody_matchers(t *testing.T) {
	policy := func(name, match string) string {
		return "redis_ratelimit /" + name + " { name " + name + "; limit 1000; window 1h; " + match + " }\n"
	}
	n := caddytest.InProcess(t, "@named vars {http.redis_ratelimit.json.model} large\n"+
		"@both {\nquery on=1\nvars_regexp {http.redis_ratelimit.json.model} ^la\n}\n"+
		policy("vars", "match vars {json.model} large larger")+policy("pattern", "match vars_regexp {json.model} ^large")+
		policy("not", "match not vars {json.model} large")+policy("named", "match @named")+policy("both", "match @both")+
		policy("cel", "match expression `{json.model} == \"large\" && {json.n} != \"1\"`")+
		policy("called", "match expression `int({json.n}) > 5`")+
		policy("set", "match {\nvars {json.model} large\nmethod POST\nquery on=1\n}")+
		policy("either", "match {\nvars {json.model} large\nvars {json.n} 1\n}")+
		policy("nested", "match not {\nvars {json.model} large\npath /other\n}")+
		policy("pass", "match vars {json.model} large\non_unread pass")+policy("dry", "match vars {json.model} large\ndry_run")+
		policy("form", "match vars {form.model} large")+"respond ok")
	const counted, free = "X-Ratelimit-Limit: 1000", caddytest.NoQuota
	large, small := `{"model":"large","n":7}`, `{"model":"small","n":7}`
	for _, s := range []bodyStep{
		{"/vars", large, 200, counted}, {"/vars", `{"model":"larger"}`, 200, counted}, {"/vars", small, 200, free}, {"/vars", "", 200, free},
		{"/vars", `{"model":"Large"}`, 200, free}, {"/vars", `{"model":"large "}`, 400, free}, {"/vars", `{"model":["large"]}`, 400, free},
		{"/vars", `{"model":"{http.request.method}"}`, 200, free}, {"/vars?Model=x", large, 400, free}, {"/vars", "model=large", 415, free},
		{"/vars", `{"model":null}`, 200, free}, {"/vars", `[{"model":"large"}]`, 400, free}, {"/vars", `{"model":"large"`, 400, free},
		{"/vars", `{"x":"` + strings.Repeat("x", 1<<20) + `"}`, 413, free},
		{"/pattern", `{"model":"large-5"}`, 200, counted}, {"/pattern", small, 200, free}, {"/pattern", `{"model":"large","model":"small"}`, 400, free},
		{"/not", large, 200, free}, {"/not", small, 200, counted}, {"/not", "", 200, counted}, {"/not", `{"model":["large"]}`, 400, free},
		{"/named", large, 200, counted}, {"/named", small, 200, free}, {"/named", `{"model":[]}`, 400, free},
		{"/both?on=1", large, 200, counted}, {"/both?on=2", large, 200, free}, {"/both?on=2", `{"model":[]}`, 200, free}, {"/both?on=1", `{"model":[]}`, 400, free},
		{"/cel", large, 200, counted}, {"/cel", `{"model":"large","n":1}`, 200, free}, {"/cel", `{"model":"small","n":[]}`, 200, free}, {"/cel", `{"model":"large","n":[]}`, 400, free},
		{"/called", large, 200, counted}, {"/called", `{"n":5}`, 200, free}, {"/called", `{"n":[7]}`, 400, free},
		{"/set?on=1", large, 200, counted}, {"/set?on=1", small, 200, free}, {"/set?on=2", `{"model":[]}`, 200, free},
		{"/either", large, 200, counted}, {"/either", `{"model":["large"],"n":1}`, 200, counted}, {"/either", `{"model":["large"],"n":7}`, 400, free},
		{"/nested", large, 200, counted}, {"/nested", `{"model":["large"]}`, 200, counted},
		{"/pass", large, 200, counted}, {"/pass", `{"model":["large"]}`, 200, free}, {"/pass", "model=large", 200, free},
		{"/dry", large, 200, free}, {"/dry", `{"model":["large"]}`, 200, free},
		{"/form", "model=large", 200, counted}, {"/form", "model=small", 200, free}, {"/form", "model=large&MODEL=small", 400, free}, {"/form", large, 415, free},
	} {
		for range 3 { // chance decides nothing
			s.send(t, n)
		}
	}
	n.CheckMetric(t, `invalid_values_total{option="match",policy="pass",reason="array"}`, 3)
	n.CheckMetric(t, `invalid_values_total{option="match",policy="vars",reason="syntax"}`, 3)
	n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="dry"}`, 3)
}
