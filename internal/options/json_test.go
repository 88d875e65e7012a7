package options

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

type common struct {
	DryRun bool `json:"dry_run,omitempty"`
}

type document struct {
	common

	Limit    int64                      `json:"limit,omitempty"`
	Window   caddy.Duration             `json:"window,omitempty"`
	Enforce  *float64                   `json:"enforce,omitempty"`
	Secret   string                     `json:"secret,omitempty"`
	Within   []*document                `json:"within,omitempty"`
	Matchers map[string]json.RawMessage `json:"matchers,omitempty"`

	hidden int
}

func TestDecodeJSON_says_which_field_is_wrong(t *testing.T) {
	for text, want := range map[string]string{
		`{"limit":"5"}`:                              `limit: is a text; write 5 without quotes`,
		`{"limit":"many"}`:                           `limit: is a text; write a whole number such as 5`,
		`{"limit":1.5}`:                              `limit: is a number; write a whole number such as 5`,
		`{"window":"60"}`:                            `window: is a text; write "60s"`,
		`{"window":"1minute"}`:                       `window: is a text; write "1m"`,
		`{"window":true}`:                            `window: is true; write a duration such as "1m"`,
		`{"enforce":"10%"}`:                          `enforce: is a text; write a number such as 12.5`,
		`{"dry_run":"true"}`:                         `dry_run: is a text; write true or false`,
		`{"secret":5}`:                               `secret: is a number; write a text in quotes such as "a"`,
		`{"within":{"limit":5}}`:                     `within: is an object; write a list in brackets, [ ... ]`,
		`{"within":[{},{"within":[{"limit":"7"}]}]}`: `within[1].within[0].limit: is a text; write 7 without quotes`,
		`{"within":[5]}`:                             `within[0]: is a number; write an object in braces, { ... }`,
		`{"limt":5}`:                                 `limt: unknown field; did you mean limit`,
		`{"Limit":5,"within":[{"hidden":1}]}`:        `within[0].hidden: unknown field`,
		`{"matchers":[]}`:                            `matchers: is a list; write an object in braces, { ... }`,
	} {
		err := DecodeJSON([]byte(text), new(document))
		assert.ErrorIf(t, err == nil || !strings.HasPrefix(err.Error(), want), "%s: got error %v, want %s", text, err, want)
	}
	for _, text := range []string{`{`, `5`, `[]`, `{"limit":5} {}`, `"x"`, ``} {
		err := DecodeJSON([]byte(text), new(document))
		assert.ErrorIf(t, err == nil && text != `{"limit":5} {}`, "%s is accepted", text)
	}
	var d document
	assert.Must(t, DecodeJSON([]byte(`{"LIMIT":5,"dry_run":true,"within":[null,{"window":"1m"}],"secret":null}`), &d))
	assert.ErrorIf(t, d.Limit != 5 || !d.DryRun || len(d.Within) != 2 || d.hidden != 0, "got %+v", d)
}

func TestDecodeJSON_shows_no_text(t *testing.T) {
	for _, text := range []string{`{"secret":["hunter2"]}`, `{"limit":"hunter2"}`, `{"window":"hunter2"}`, `{"within":"hunter2"}`, `{"secret":4711}`} {
		err := DecodeJSON([]byte(text), new(document))
		shown := err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "4711"))
		assert.ErrorIf(t, err == nil || shown, "%s: got error %v", text, err)
	}
}
