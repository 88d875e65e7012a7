package bodyvalue

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// callCases are bodies in the orders of members that MCP's SDKs write, and others.
var callCases = []struct {
	body   string
	kind   CallKind
	method string
	id     string
}{
	{
		`{"method":"tools/call","params":{"name":"search","arguments":{"id":7,"jsonrpc":"1.0"}},"jsonrpc":"2.0","id":2}`,
		CallRequest, "tools/call", "2",
	},
	{`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"search"}}`, CallRequest, "tools/call", "3"},
	{
		`{"jsonrpc":"2.0","id":"server-discover-probe-1","method":"server/discover"}`,
		CallRequest, "server/discover", `"server-discover-probe-1"`,
	},
	{"{\n\t\"id\" : \"a\\u00e9\\n\" ,\"method\":\"tools\\/list\", \"jsonrpc\":\"2.0\"}\n", CallRequest, "tools/list", `"a\u00e9\n"`},
	{`{"jsonrpc":"2.0","id":1.50E+3,"method":"a"}`, CallRequest, "a", "1.50E+3"},
	{`{"jsonrpc":"2.0","id":-0,"method":""}`, CallRequest, "", "-0"},
	{`{"jsonrpc":"2.0","id":12345678901234567890,"method":"a"}`, CallRequest, "a", "12345678901234567890"},
	{`{"jsonrpc":"2.0","id":"\ud800\u0000","method":"a"}`, CallRequest, "a", `"\ud800\u0000"`},
	{`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 254) + `","method":"a"}`, CallRequest, "a", `"` + strings.Repeat("x", 254) + `"`},
	{`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 255) + `","method":"a"}`, CallNone, "", ""},
	{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, callNotification, "notifications/initialized", ""},
	{`{"jsonrpc":"2.0","id":null,"method":"a"}`, CallNone, "", ""},
	{`{"jsonrpc":"2.0","id":true,"method":"a"}`, CallNone, "", ""},
	{`{"jsonrpc":"2.0","id":[1],"method":"a"}`, CallNone, "", ""},
	{`{"jsonrpc":"2.0","id":1,"method":"a","id":2}`, CallNone, "", ""},
	{`{"jsonrpc":"2.0","ID":1,"method":"a"}`, CallNone, "", ""},
	{`{"jsonrpc":"2.0","id":1,"method":"a","Method":"b"}`, CallNone, "", ""},
	{`{"jsonrpc":"2.0","id":1,"method":5}`, CallNone, "", ""},
	{`{"jsonrpc":"2.0","id":1,"result":{}}`, CallNone, "", ""},
	{`{"jsonrpc":"1.0","id":1,"method":"a"}`, CallNone, "", ""},
	{`{"jsonrpc":2.0,"id":1,"method":"a"}`, CallNone, "", ""},
	{`{"id":1,"method":"a"}`, CallNone, "", ""},
	{`[{"jsonrpc":"2.0","id":1,"method":"a"}]`, callBatch, "", ""},
	{` []`, callBatch, "", ""},
	{`[`, CallNone, "", ""},
	{`{"jsonrpc":"2.0","id":1,"method":"a"}x`, CallNone, "", ""},
	{"\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"a"}`, CallNone, "", ""},
	{"", CallNone, "", ""},
	{`"2.0"`, CallNone, "", ""},
	{`{"jsonrpc":"2.0","id":1,"method":"a","params":"` + strings.Repeat("x", MaxCall-49) + `"}`, CallRequest, "a", "1"},
	{`{"jsonrpc":"2.0","id":1,"method":"a","params":"` + strings.Repeat("x", MaxCall-48) + `"}`, CallNone, "", ""},
}

func TestReadCall(t *testing.T) {
	for _, c := range callCases {
		call := ReadCall([]byte(c.body))
		body := c.body[:min(len(c.body), 120)]
		assert.Equal(t, call.Kind(), c.kind, "kind of %s, of %d bytes", body, len(c.body))
		assert.Equal(t, call.Method(), c.method, "method of %s", body)
		assert.Equal(t, string(call.ID()), c.id, "id of %s", body)
	}
}

// FuzzReadCall compares with encoding/json. What it writes back must be the id of the body.
func FuzzReadCall(f *testing.F) {
	for _, c := range callCases {
		if len(c.body) < 1000 {
			f.Add([]byte(c.body))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		call := ReadCall(body)
		switch call.Kind() {
		case CallNone:
		case callBatch:
			assert.Must(t, json.Unmarshal(body, new([]any)))
		case CallRequest, callNotification:
			var want struct {
				Version string          `json:"jsonrpc"`
				Method  string          `json:"method"`
				ID      json.RawMessage `json:"id"`
			}
			assert.Must(t, json.Unmarshal(body, &want))
			assert.Equal(t, want.Version, "2.0", "version of %q", body)
			assert.Equal(t, call.Method(), want.Method, "method of %q", body)
			assert.ErrorIf(t, !bytes.Equal(call.ID(), want.ID), "id of %q is %s, want %s", body, call.ID(), want.ID)
		}
	})
}

func BenchmarkReadCall(b *testing.B) {
	body := []byte(callCases[0].body)
	b.ReportAllocs()
	for b.Loop() {
		assert.FatalIf(b, ReadCall(body).Kind() != CallRequest, "no call")
	}
}
