package requests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// regexpSite has three limits twice: below /old by regular expressions over the whole body, which is how Caddyfiles had to be
// written before there were values of the body, and below /new by these. Each case of the test is a client of its own.
var regexpSite = strings.ReplaceAll(`
	route /old/* {
		request_body {
			max_size 1MB
		}
		@max vars_regexp max {http.request.body} '(?i)"max_?(?:completion_?|output_?)?tokens"\s*:\s*([0-9]{1,9})\b'
		vars @max max_tokens {re.max.1}
		@model {
			vars_regexp model {http.request.body} '"model"\s*:\s*"([^"]*)"'
			not vars_regexp {http.request.body} '"model"\s*:[\s\S]*"model"\s*:|\\u00[67]'
		}
		vars @model model {re.model.1}
		@call vars_regexp {http.request.body} '"method"\s*:\s*"tools/call"'
		map {vars.model} {old_limit} {
			small 300
			large 200
			default 100
		}
		redis_ratelimit /old/tokens {
			name old-tokens
			key {header.X-Case}
			limit 100000
			window 1h
			weight {vars.max_tokens} 4000
		}
		redis_ratelimit /old/model {
			name old-model
			key {header.X-Case}
			limit {old_limit} 100
			window 1h
		}
		route /old/tool {
			redis_ratelimit @call {
				name old-tool
				key {header.X-Case}
				limit 10
				window 1h
			}
		}
	}
	map {http.redis_ratelimit.json.model} {new_limit} {
		small 300
		large 200
		default 100
	}
	redis_ratelimit /new/tokens {
		name new-tokens
		key {header.X-Case}
		limit 100000
		window 1h
		weight llm 4000
	}
	redis_ratelimit /new/model {
		name new-model
		key {header.X-Case}
		limit {new_limit} 100
		window 1h
	}
	redis_ratelimit /new/tool {
		name new-tool
		key {header.X-Case}
		limit 10
		window 1h
		match vars {json.method} tools/call
	}
	respond "Hello."
`, "'", "`")

// regexpCase is a body that both ways decide about.
type regexpCase struct {
	name, body string
	old, new   string // what each limit does; an empty new one: the same
	query      string
	kind       string // Content-Type; empty: JSON
}

// What the limits do.
const (
	ofSmall, ofLarge, ofOthers = "limit 300", "limit 200", "limit 100" // of a model
	counted, notCounted        = "limit 10, takes 1", "not counted"    // a call of a tool
)

// takes returns what a limit of tokens does.
func takes(tokens int) string { return fmt.Sprint("limit 100000, takes ", tokens) }

// regexpCases are the bodies, by the limit. Where the ways differ, the old one was wrong, and the name says why.
var regexpCases = map[string][]regexpCase{
	"tokens": {
		{name: "max_tokens", body: `{"max_tokens":500}`, old: takes(500)},
		{name: "max_completion_tokens", body: `{"max_completion_tokens" : 500 , "messages":[]}`, old: takes(500)},
		{name: "max_output_tokens", body: "{\n\t\"max_output_tokens\":\t500\n}", old: takes(500)},
		{name: "maxOutputTokens", body: `{"generationConfig":{"maxOutputTokens":500}}`, old: takes(500)},
		{name: "no bound", body: `{"messages":[],"stream":true}`, old: takes(4000)},
		{name: "null", body: `{"max_tokens":null}`, old: takes(4000)},
		{name: "below 0", body: `{"max_tokens":-500}`, old: takes(4000)},
		{name: "an array", body: `{"max_tokens":[500]}`, old: takes(4000)},
		{name: "a whole number with a point", body: `{"max_tokens":500.0}`, old: takes(500)},
		{name: "no body", old: takes(4000)},
		{name: "a form", body: "model=small", old: takes(4000), kind: ofForm},

		{name: "the texts of the call weigh nothing", body: `{"max_tokens":500,"messages":[{"content":"` + strings.Repeat("word ", 80) + `"}]}`, old: takes(500), new: takes(600)},
		{name: "the first of two names counts", body: `{"max_tokens":1,"max_tokens":90000}`, old: takes(1), new: takes(4000)},
		{name: "a name further in counts", body: `{"metadata":{"max_tokens":1},"max_tokens":90000}`, old: takes(1), new: takes(90000)},
		{name: "a name in an array counts", body: `{"tools":[{"max_tokens":1}],"max_tokens":90000}`, old: takes(1), new: takes(90000)},
		{name: "the first of two bounds counts", body: `{"max_tokens":1,"max_completion_tokens":90000}`, old: takes(1), new: takes(90000)},
		{name: "an escape hides the name", body: `{"max_tok\u0065ns":90000}`, old: takes(4000), new: takes(90000)},
		{name: "an exponent hides the number", body: `{"max_tokens":9e4}`, old: takes(4000), new: takes(90000)},
		{name: "ten digits hide the number", body: `{"max_tokens":1000000000}`, old: takes(4000), new: takes(100000)},
		{name: "a fraction is cut off", body: `{"max_tokens":1.5}`, old: takes(1), new: takes(4000)},
		{name: "another case of the name counts", body: `{"MAX_TOKENS":1}`, old: takes(1), new: takes(4000)},
		{name: "a body that is cut off counts", body: `{"max_tokens":1,"messages":[`, old: takes(1), new: takes(4000)},
		{name: "a text that is no JSON counts", body: `"max_tokens":1`, old: takes(1), new: takes(4000)},
		{name: "a comment counts", body: `{/*"max_tokens":1,*/"max_tokens":90000}`, old: takes(1), new: takes(4000)},
		{name: "another type counts", body: `{"max_tokens":1}`, old: takes(1), new: takes(4000), kind: "Content-Type: text/plain"},
		{name: "several answers cost as much as one", body: `{"max_tokens":500,"n":8}`, old: takes(500), new: takes(4000)},
		{name: "Ollama's bound is not known", body: `{"options":{"num_predict":500}}`, old: takes(4000), new: takes(500)},
		{name: "a bound above the capacity never passes", body: `{"max_tokens":100001}`, old: "status 429", new: takes(100000)},
		{name: "a body above its size is refused", body: `{"messages":["` + strings.Repeat("a", 1<<20) + `"]}`, old: "status 413", new: takes(4000)},
	},
	"model": {
		{name: "small", body: `{"model":"small","messages":[]}`, old: ofSmall},
		{name: "large", body: "{\"messages\":[],\n\"model\" : \"large\"}", old: ofLarge},
		{name: "unknown", body: `{"model":"medium","messages":["small"]}`, old: ofOthers},
		{name: "none", body: `{"messages":["small"]}`, old: ofOthers},
		{name: "a model in a text", body: `{"messages":[{"content":"\"model\":\"large\""}],"model":"small"}`, old: ofSmall},
		{name: "two", body: `{"model":"small","model":"large"}`, old: ofOthers},
		{name: "two, one of them escaped", body: `{"model":"small","mod\u0065l":"large"}`, old: ofOthers},
		{name: "two documents", body: `{"model":"small"}{"model":"large"}`, old: ofOthers},
		{name: "a number", body: `{"model":1}`, old: ofOthers},
		{name: "another case of the value", body: `{"model":"SMALL"}`, old: ofOthers},
		{name: "no body", old: ofOthers},

		{name: "an escape in the value hides it", body: `{"model":"sm\u0061ll"}`, old: ofOthers, new: ofSmall},
		{name: "an escape in a text hides the model", body: `{"model":"small","messages":["caf\u0065"]}`, old: ofOthers, new: ofSmall},
		{name: "a name further in hides the model", body: `{"model":"small","metadata":{"model":"x"}}`, old: ofOthers, new: ofSmall},
		{name: "a name further in counts", body: `{"metadata":{"model":"small"}}`, old: ofSmall, new: ofOthers},
		{name: "another case of the name is not seen", body: `{"model":"small","Model":"large"}`, old: ofSmall, new: ofOthers},
		{name: "an escaped capital is not seen", body: `{"model":"small","\u004dodel":"large"}`, old: ofSmall, new: ofOthers},
		{name: "a parameter of the query is not seen", body: `{"model":"small"}`, query: "?model=large", old: ofSmall, new: ofOthers},
		{name: "a body that is cut off counts", body: `{"model":"small"`, old: ofSmall, new: ofOthers},
		{name: "a second document is not seen", body: `{"model":"small"} {"MODEL":"large"}`, old: ofSmall, new: ofOthers},
		{name: "a comment counts", body: `{/*"model":"small",*/}`, old: ofSmall, new: ofOthers},
		{name: "a byte order mark counts", body: "\ufeff" + `{"model":"small"}`, old: ofSmall, new: ofOthers},
		{name: "another type counts", body: `{"model":"small"}`, old: ofSmall, new: ofOthers, kind: "Content-Type: text/plain"},
	},
	"tool": {
		{name: "the id first", body: `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"search"}}`, old: counted},
		{name: "the id last", body: `{"method":"tools/call","params":{"name":"search"},"jsonrpc":"2.0","id":3}`, old: counted},
		{name: "blanks", body: "{ \"method\" :\n\t\"tools/call\" }", old: counted},
		{name: "the handshake", body: `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, old: notCounted},
		{name: "the list of tools", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, old: notCounted},
		{name: "a call in a text", body: `{"method":"resources/read","params":{"uri":"\"method\":\"tools/call\""}}`, old: notCounted},
		{name: "an answer", body: `{"jsonrpc":"2.0","id":1,"result":{}}`, old: notCounted},
		{name: "no body", old: notCounted},

		{name: "an escape in the value hides it", body: `{"method":"tools\/call"}`, old: notCounted, new: counted},
		{name: "an escape in the name hides it", body: `{"m\u0065thod":"tools/call"}`, old: notCounted, new: counted},
		{name: "another case of the name is not seen", body: `{"Method":"tools/call"}`, old: notCounted, new: "status 400"},
		{name: "a name further in counts", body: `{"method":"ping","params":{"method":"tools/call"}}`, old: counted, new: notCounted},
		{name: "the one of two names that is not called counts", body: `{"method":"tools/call","method":"ping"}`, old: counted, new: "status 400"},
		{name: "a batch counts once", body: `[{"method":"tools/call"},{"method":"tools/call"}]`, old: counted, new: "status 400"},
		{name: "a body that is cut off counts", body: `{"method":"tools/call"`, old: counted, new: "status 400"},
		{name: "another type is not refused", body: `{"method":"tools/call"}`, old: counted, new: "status 415", kind: "Content-Type: text/plain"},
	},
}

// TestBody_regexp has both ways decide about the same bodies.
func TestBody_regexp(t *testing.T) {
	n := caddytest.InProcess(t, regexpSite)
	for limit, cases := range regexpCases {
		for _, c := range cases {
			kind := c.kind
			if kind == "" {
				kind = ofJSON
			}
			want := map[string]string{"old": c.old, "new": c.new}
			if c.new == "" {
				want["new"] = c.old
			}
			for way := range want {
				a := n.Send(t, http.MethodPost, n.URL+"/"+way+"/"+limit+c.query, c.body, kind, "X-Case: "+c.name)
				assert.Equal(t, decided(t, limit, a), want[way], "%s, the %s way: %s of %.200s", limit, way, c.name, c.body)
			}
		}
	}
}

// decided returns what a limit did to a request.
func decided(t *testing.T, limit string, a caddytest.Response) string {
	t.Helper()
	switch {
	case a.Status != http.StatusOK:
		return fmt.Sprint("status ", a.Status)
	case !caddytest.HasQuota(a):
		return notCounted
	}
	var most, left int
	_, err := fmt.Sscan(a.Header.Get("X-Ratelimit-Limit")+" "+a.Header.Get("X-Ratelimit-Remaining"), &most, &left)
	assert.Must(t, err)
	if limit == "model" {
		return fmt.Sprint("limit ", most)
	}
	return fmt.Sprintf("limit %d, takes %d", most, most-left)
}
