package bodyvalue

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// benchmarkPaths are as many as a configuration with some limits has.
var benchmarkPaths = []string{"model", "user_id", "user.email", "metadata.user_id", "params.name", "account.first_name", "tenant-id", "session.token"}

// BenchmarkRequest reads bodies of requests for one path or some and, but for the short one, for the tokens of a language model.
func BenchmarkRequest(b *testing.B) {
	fill := func(length int, text string) string { return strings.Repeat(text, length/len(text)) }
	const large = 1 << 20
	const english = `The quick brown fox jumps over the lazy dog, and says: \"well\".\nThen it sleeps; `
	message := `{"role":"user","content":"` + fill(4000, english) + `"},`
	spoken := `{"role":"user","content":"` + fill(4000, `Der Bär läuft über die Brücke – “schnell”, sagt er, und schläft. 熊は眠る。`) + `"},`
	for name, test := range map[string]struct {
		body   string
		tokens bool
		paths  []string // nil: one
	}{
		"short":   {`{"model":"small","messages":[{"role":"user","content":"` + fill(900, `What is a limit? `) + `"}],"stream":true}`, false, nil},
		"chat":    {`{"model":"small","messages":[` + fill(large, message) + `{}]}`, true, nil},
		"unicode": {`{"model":"small","messages":[` + fill(large, spoken) + `{}]}`, true, nil},
		"escapes": {`{"model":"small","messages":"` + fill(large, `\u0434\u0430\n`) + `"}`, true, nil},
		"dense":   {`{"model":"small","items":[` + fill(large, `{"id":1,"name":"item","tags":["a","bc"],"ok":true,"n":null},`) + `{}]}`, true, nil},
		"numbers": {`{"model":"small","data":[` + fill(large, `-0.0069292834,0.0053364224,17,`) + `0]}`, true, nil},
		"names":   {`{` + fill(large, `"max_tokenz":0,`) + `"model":"small"}`, true, nil},
		"joints":  {`{` + fill(large, `"_":0,`) + `"model":"small"}`, true, benchmarkPaths},
		"foreign": {`{` + fill(large, `"é":0,`) + `"model":"small"}`, true, benchmarkPaths},
		"levels":  {`{"model":"small","x":[` + fill(large, strings.Repeat("[", 500)+strings.Repeat("]", 500)+",") + `0]}`, true, nil},
	} {
		if test.paths == nil {
			test.paths = []string{"model"}
		}
		plan := requestPlan(b, test.paths...)
		if test.tokens {
			plan.AddTokens()
		}
		data := []byte(test.body)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				v := plan.readRequest(data).Value(0)
				assert.FatalIf(b, v.Text() != "small", "%v", v)
			}
		})
	}
}
