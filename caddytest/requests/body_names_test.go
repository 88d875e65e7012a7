package requests

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestBody_shortNames loads configurations with short names outside of the directive, which have no value there.
func TestBody_shortNames(t *testing.T) {
	n := caddytest.InProcess(t, "respond ok")
	const limited = "\nredis_ratelimit { key {json.user}; limit 5; window 1h }\n"
	const refusal = "is a short name, which only the directive has; "
	for site, want := range map[string]string{
		"@m vars {json.model} x\nredis_ratelimit @m {client_ip} 5 1h":                           "has no value before the directive reads the body; write such a matcher in the directive: match @m",
		"redis_ratelimit {\nlimit 5\nwindow 1h\nmatch @m\n}\n@m vars {json.model} x":            "match @m: {json.model} " + refusal,
		"redis_ratelimit {\nlimit 5\nwindow 1h\nmatch @m\n}\n@m expression {form.model} == `x`": "match @m: {form.model} " + refusal,
		"map {json.model} {limit} {\ndefault 5\n}" + limited:                                    "{json.model} " + refusal + "elsewhere write {http.redis_ratelimit.json.model}",
		"map {json.model} {limit} {\ndefault 5\n}\nredis_ratelimit {client_ip} 5 1h":            "{json.model} " + refusal,
		limited + "header X-Model {json.model}":                                                 "{json.model} " + refusal,
		limited + "log_append model {form.model}":                                               "{form.model} " + refusal,
		limited + "handle_errors {\nrespond \"no {json.model}\"\n}":                             "{json.model} " + refusal,
		limited + "@m vars {json.model} x\nrespond @m x":                                        "{json.model} " + refusal,
		limited + "@m not expression `{form.model} == \"x\"`\nrespond @m x":                     "{form.model} " + refusal,
		limited + "route /a {\nsubroute_of_nothing\n}":                                          "unrecognized directive",
		limited + "respond `<b>{{json.model}}</b> ${form.a} \\{json.b}`":                        "",
		"redis_ratelimit {client_ip} 5 1h\nrespond {json.model}":                                "",
		limited + "header X-Model {http.redis_ratelimit.json.model}":                            "",
		"redis_ratelimit {\nkey {json.}\nlimit 5\nwindow 1h\n}":                                 `key: {json.}: no path stands behind`,
		"redis_ratelimit {\nkey {form.[]}\nlimit 5\nwindow 1h\n}":                               `nothing but separators`,
		"redis_ratelimit {\nlimit 5\nwindow 1h\nmatch vars {json.a+b} x\n}":                     `+ if a name has it`,
		"redis_ratelimit {\nlimit 5\nwindow 1h\non_unread pass\n}":                              "on_unread: match asks for no value of the body",
		"redis_ratelimit {\nkey {client_ip}\nlimit 5\nwindow 1h\nraw_key\n}":                    "raw_key: the key has no value that has several spellings",
	} {
		a := n.Load(t, caddytest.WithPorts(n, caddytest.Config("", site)))
		wanted := http.StatusOK
		if want != "" {
			wanted = http.StatusBadRequest
		}
		assert.ErrorIf(t, a.Status != wanted || !strings.Contains(a.Body, want), "%q: got %v; want %q", site, a, want)
	}
}

// TestBody_namesInMatchers has matchers behind the directive go by values of the body, which no key and no other handler names.
// Those of a site without a host are set up before the directive, those of a site with one behind it.
func TestBody_namesInMatchers(t *testing.T) {
	const site = `
	redis_ratelimit { key {json.user}; limit 1000; window 24h; on_empty_key reject }
	@model vars {http.redis_ratelimit.json.model} large
	respond @model "large"
	@kind not expression ` + "`{http.redis_ratelimit.form.kind} == '' && {http.redis_ratelimit.json.kind} != 'b'`" + `
	respond @kind "of kind b"
	handle /in {
		@size vars_regexp {http.redis_ratelimit.json.size} ^1
		respond @size "begins with 1"
	}
	respond "none"`
	n := caddytest.InProcess(t, "respond ok")
	for _, config := range []string{
		caddytest.Config("", site), caddytest.ConfigWithSites("", "http://127.0.0.1:{$PORT} {"+site+"\n}\n"),
	} {
		assert.ErrorIf(t, n.Load(t, caddytest.WithPorts(n, config)).Status != http.StatusOK, "the configuration is refused")
		for _, test := range [][3]string{
			{"/", `{"user":"bob","model":"large"}`, "large"}, {"/", `{"user":"bob","kind":"b"}`, "of kind b"},
			{"/in", `{"user":"bob","size":12}`, "begins with 1"}, {"/in", `{"user":"bob","size":2}`, "none"},
		} {
			a := n.Send(t, http.MethodPost, n.URL+test[0], test[1], ofJSON)
			assert.ErrorIf(t, a.Body != test[2], "%s %s: got %v; want %q", test[0], test[1], a, test[2])
		}
	}
}

// TestBody_fullNames has handlers around the directive name values of the body: a map that the limit depends on, a log,
// headers and answers. Behind the directive a name that has no value is empty.
func TestBody_fullNames(t *testing.T) {
	const model = "{http.redis_ratelimit.json.model}"
	caddytest.OnEachStore(t, `log
	map `+model+` {model_limit} { large 2; ~^small 9; default 4 }
	redis_ratelimit /mapped { name mapped; key {query.k}; limit {model_limit} 5; window 24h }
	redis_ratelimit /pattern { name pattern; key {query.k}; limit 5; window 24h; match { vars {model_limit} 2; path /pattern } }
	redis_ratelimit /read { name read; key {json.user}; limit 1000; window 24h; on_empty_key skip }
	redis_ratelimit /unread { name unread; key {query.k}; limit 1000; window 24h }
	redis_ratelimit /refused { name refused; key {json.user}; limit 1; window 24h; on_empty_key reject }
	header >X-Model "<`+model+`>"
	log_append model `+model+`
	respond "<`+model+`> <{http.redis_ratelimit.form.model}>" 200
	handle_errors {
		respond "refused <`+model+`>"
	}`, func(t *testing.T, n *caddytest.Node, _ string) {
		long := strings.Repeat("é", 3000)
		for _, test := range []struct{ path, text, limit, body string }{
			{"/mapped?k=a", `{"model":"large"}`, "2", "<large> <>"},
			{"/mapped?k=b", `{"model":"small-1"}`, "9", "<small-1> <>"},
			{"/mapped?k=c", `{"model":"other"}`, "4", "<other> <>"},
			{"/mapped?k=d", `{"model":["large"]}`, "4", "<> <>"},
			{"/mapped?k=e", ``, "4", "<> <>"},
			{"/mapped?k=f", `{"model":"{env.HOME}{http.request.method}"}`, "4", "<{env.HOME}{http.request.method}> <>"},
			{"/pattern?k=a", `{"model":"large"}`, "5", "<large> <>"},
			{"/pattern?k=a", `{"model":"small"}`, "", "<small> <>"},
			{"/pattern?k=a", `{"model":["large"]}`, "", "refused <>"},
			{"/read", `{"user":"bob","model":"large"}`, "1000", "<large> <>"},
			{"/read", `{"user":"bob","model":"` + long + `"}`, "1000", "<" + long[:4096] + "> <>"},
			{"/read", `{"user":"bob"}`, "1000", "<> <>"},
			{"/read", ``, "", "<> <>"},
			{"/unread?k=a", `{"model":"large"}`, "1000", "<> <>"},
			{"/refused", `{"user":"bob","model":"first"}`, "1", "<first> <>"},
			{"/refused", `{"user":"bob","model":"second"}`, "1", "refused <second>"},
			{"/refused", `{"user":["bob"],"model":"third"}`, "", "refused <third>"},
			{"/refused", `{"user":["bob"],"model":"third"`, "", "refused <>"},
		} {
			a := n.Send(t, http.MethodPost, n.URL+test.path, test.text, ofJSON)
			assert.ErrorIf(t, a.Body != test.body || a.Header.Get("X-Ratelimit-Limit") != test.limit, "%s %.100s: got %v; want limit %s and %q", test.path, test.text, a, test.limit, test.body)
			shown := a.Header.Get("X-Model")
			assert.ErrorIf(t, shown+" <>" != test.body && !strings.HasPrefix(test.body, "refused"), "%s %.100s: the header has %.100q", test.path, test.text, shown)
		}
		for _, logged := range []string{"large", "small-1", "{env.HOME}{http.request.method}", long[:4096], "first", ""} {
			assert.Retry(t, "the value is logged", func() (again bool, seen any) {
				return !strings.Contains(n.Log.String(), `"model":"`+logged+`"`), logged
			})
		}
	})
}
