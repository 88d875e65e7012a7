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
		limited + "header X-Model {json.model}":                                                 "{json.model} " + refusal,
		limited + "log_append model {form.model}":                                               "{form.model} " + refusal,
		limited + "handle_errors {\nrespond \"no {json.model}\"\n}":                             "{json.model} " + refusal,
		limited + "route /a {\nsubroute_of_nothing\n}":                                          "unrecognized directive",
		limited + "respond `<b>{{json.model}}</b> ${form.a} \\{json.b}`":                        "",
		"redis_ratelimit {client_ip} 5 1h\nrespond {json.model}":                                "",
		limited + "header X-Model {http.redis_ratelimit.json.model}":                            "",
		"redis_ratelimit {\nkey {json.}\nlimit 5\nwindow 1h\n}":                                 `key: {json.}: no path stands behind`,
		"redis_ratelimit {\nkey {form.[]}\nlimit 5\nwindow 1h\n}":                               `nothing but separators`,
		"redis_ratelimit {\nlimit 5\nwindow 1h\nmatch vars {json.a+b} x\n}":                     `+ if a name has it`,
		"redis_ratelimit {\nlimit 5\nwindow 1h\non_unread pass\n}":                              "on_unread: match asks for no value of the body",
		"redis_ratelimit {\nkey {query.k}\nlimit 5\nwindow 1h\nraw_key\n}":                      "raw_key: the key has no value of the body",
	} {
		a := n.Load(t, caddytest.WithPorts(n, caddytest.Config("", site)))
		wanted := http.StatusOK
		if want != "" {
			wanted = http.StatusBadRequest
		}
		assert.ErrorIf(t, a.Status != wanted || !strings.Contains(a.Body, want), "%q: got %v; want %q", site, a, want)
	}
}
