package bodyvalue

import (
	"bytes"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// requestPaths lead to places that the seeds have.
var requestPaths = []string{"a", "a.b", "A", "a.a", "k", "a.b.a", "é", "a\\.b", "s.ſ", "0", "b", "a_b", "a.a-k"}

// requestSeeds are bodies that take every way through the reader.
var requestSeeds = []string{
	`{"a":1,"b":{"a":[1,2,{"b":3}]}}`, `{"a":{"b":12.5e1}}`, ` {"a":{"b":true},"b":-0.0}` + "\r\n\t", `[1,{"a":5}]`, `"x"`, `12`, `null`,
	`{"\u0061":"x\\\"]\u00e9\ud83d\ude00","b":9007199254740993,"A":null}`, `{"é":1,"\u00c9":2,"\ud83d":3}`,
	`{"K":"a\ud83d\ud83dx"}`,
	`{"a":{"b":"\u0000","x":false},"a.b":0}`, `{"a":"\ude00"}`, `{"s":{"S":1e21}}`, `{"a":{"b":{"a":"b"}},"0":[[1,2],[3,"x"],[],[4.5e-7]]}`,
	"{\"a\":\"\xe2\x82\xac\xf0\x9f\x98\x80\xc3\"}", "\ufeff{}", "\xef\xbb",
	`{"a":1}{"a":1}`, `{"a":01}`, `{"a":1,}`, `{"a":tru}`, `{"a":+1}`, "{\"a\":\"\x01\"}",
	`{"a":"` + strings.Repeat("aB3+/=-_:;,.", 50) + `","b":"` + strings.Repeat("aB3+/=-_:;,.", 42) + `\/\n"}`,
	strings.Repeat(`[`, 513) + strings.Repeat(`]`, 513),
	strings.Repeat(`{"a":`, 512) + `{}` + strings.Repeat(`}`, 512), `{"a\u0000":1,"a":2}`,
	`{"a":123456789012345678901234567890123456789012345678901234567890.12345}`,
	`{"a":0.000001,"b":1E+0000000000000000000000000000000000000000001}`,
	`{"max_tokens":5,"n":3,"options":{"num_predict":7}}`, `{"a":1e-7,"b":1e400}`, `{"a":123456789012345e-15,"b":9007199254740992.0}`,
	`{"a":"\/\b\f\n\r\t\u12aF\x"}`, `{" a":1,"b\u2003":2,"a":{"\tb":3}}`, `{"a \n":1,"b":1.0000000000000000000}`,
	`{"a` + strings.Repeat(" ", 100) + `":1,"b":2}`, `{"\t` + strings.Repeat("x", 100) + `":1,"a":2}`,
	`{"aB":1,"a":{"aK":2,"A_-k":"x"}}`, `{"b":1,"\u0041_B":2}`, `{"` + strings.Repeat("-", 100) + `ab":1,"a_b":2}`,
	`{" a_b":1,"b":2}`, `{"-a ":1,"a":2}`,
}

// requestPlan has [requestPaths] and the tokens.
func requestPlan(t testing.TB, paths ...string) *JSONPlan {
	t.Helper()
	plan := new(JSONPlan)
	for i, text := range paths {
		assert.Equal(t, plan.AddPath(assert.NoError(ParseJSONPath(text))(t)), i, "the number of %s", text)
	}
	return plan
}

// FuzzRequest_pieces reads a body in one piece and in pieces that the input chooses.
func FuzzRequest_pieces(f *testing.F) {
	for i, seed := range requestSeeds {
		f.Add([]byte(seed), []byte{1, byte(i), 30, 3, 64})
		f.Add([]byte(seed), []byte{0})
	}
	f.Fuzz(func(t *testing.T, body, lengths []byte) {
		plan := requestPlan(t, requestPaths...)
		plan.AddTokens()
		plan.AddCalls()
		one, pieces, rest := plan.readRequest(body), plan.NewReader(), body
		for i := 0; len(rest) > 0; i++ {
			n := len(rest)
			if len(lengths) > 0 {
				n = min(n, 1+int(lengths[i%len(lengths)]))
			}
			piece := bytes.Clone(rest[:n])
			pieces.Write(piece)
			clear(piece) // which must not be kept
			rest = rest[n:]
		}
		pieces.End()
		assert.Equal(t, pieces.reason, one.reason, "reason")
		for i := range plan.paths {
			assert.Equal(t, pieces.Value(i), one.Value(i), "path %d of %q", i, body)
		}
		for i := range plan.places {
			assert.Equal(t, pieces.found[i], one.found[i], "place %d of %q", i, body)
		}
		n, reason := one.Weight().Tokens(7)
		m, reasonPieces := pieces.Weight().Tokens(7)
		assert.ErrorIf(t, n != m || reason != reasonPieces, "%d %s tokens in one piece, %d %s in pieces", n, reason, m, reasonPieces)
		assert.Equal(t, pieces.Batch(), one.Batch(), "calls")
	})
}

// contentNames are the contents of texts as the reference writes them.
var contentNames = map[content]string{contentString: "string:", contentNumber: "number:", contentWord: "word:"}

// resultOf returns a value as the reference writes it.
func resultOf(r *JSONReader, number int) string {
	switch v := r.Value(number); v.Kind() {
	case KindAbsent:
		return "absent"
	case KindUnreadable:
		return referenceUnreadable
	default:
		content, _, _ := r.read(number)
		return contentNames[content] + v.Text()
	}
}

// FuzzRequest_reference compares with encoding/json, whose members are judged by the design's rules.
func FuzzRequest_reference(f *testing.F) {
	for _, seed := range requestSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		plan := requestPlan(t, requestPaths...)
		r, want := plan.readRequest(body), referenceRead(body)
		assert.ErrorIf(t, (r.reason == ReasonNone) != (want != nil), "%q is read: %s", body, r.reason)
		for i, text := range requestPaths {
			path := assert.NoError(ParseJSONPath(text))(t)
			assert.Equal(t, resultOf(r, i), referenceResult(want, path.names), "%s in %q (%s)", text, body, r.Value(i).Reason())
		}
		if want != nil {
			assert.Equal(t, r.Weight().Input(), referenceInput(want), "input of %q", body)
		}
	})
}
