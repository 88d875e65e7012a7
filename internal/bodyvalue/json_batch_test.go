package bodyvalue

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// callsPlan counts calls alone.
func callsPlan() *JSONPlan {
	plan := new(JSONPlan)
	plan.AddCalls()
	plan.AddCalls()
	return plan
}

// TestBatch_Calls counts calls in pieces, alone and beside a path whose name the members have. 100 is what unreadable bodies have.
func TestBatch_Calls(t *testing.T) {
	const call = `{"jsonrpc":"2.0","method":"m","id":1}`
	beside := requestPlan(t, "method", "id.method")
	beside.AddTokens()
	beside.AddCalls()
	many := func(n int, element string) string { return "[" + strings.Repeat(element+",", n-1) + element + "]" }
	cases := [][]string{
		{many(1000, call), "1000"},
		{many(11, `{"params":{"x":[[{"y":"`+strings.Repeat(`\u0041`, 50)+`"}]]},"method":"m"}`), "11"},
		{strings.Repeat("[", 63) + many(3, call) + strings.Repeat("]", 63), "3"},
		{strings.Repeat("[", 64) + many(3, call) + strings.Repeat("]", 64), "3"},
		{strings.Repeat("[", 70) + `{"a":[` + call + "]}" + strings.Repeat("]", 70), "1"},
		{strings.Repeat("[", 510) + many(3, call) + strings.Repeat("]", 510), "3"}, // 512 levels
		{strings.Repeat("[", 511) + many(3, call) + strings.Repeat("]", 511), "100"},
		{`[{"` + strings.Repeat("-", 100) + `method":1},` + call + "]", "2"},
		{`[{"` + strings.Repeat("x", 100) + `":1},` + call + "," + call + "]", "2"},
		{`[{" ` + strings.Repeat("x", 500) + `":1},` + call + "]", "2"},
		{`[{"method` + strings.Repeat(" ", 500) + `":1},` + call + "]", "2"},
	}
	for _, row := range append(cases, rows(t, "batches.txt", 2)...) {
		for _, plan := range []*JSONPlan{callsPlan(), beside} {
			for _, length := range []int{len(row[0]), 1, 5} {
				n, reason := readPieces(plan, row[0], length).Batch().Calls(100)
				assert.Equal(t, strconv.FormatInt(n, 10), row[1], "%.100s, pieces of %d (%s)", row[0], length, reason)
				assert.ErrorIf(t, (n == 100) != (reason != ReasonNone), "%.100s: the reason %s", row[0], reason)
			}
		}
	}
	for name, b := range map[string]Batch{"no body": {}, "not asked for": new(JSONPlan).readRequest([]byte(many(9, call))).Batch()} {
		n, reason := b.Calls(100)
		assert.ErrorIf(t, n != 1 || reason != ReasonNone, "%s: %d calls (%s)", name, n, reason)
	}
}

// TestBatch_Calls_million reads a batch that is cut off, and whole: its length takes no memory.
func TestBatch_Calls_million(t *testing.T) {
	const calls = 1_000_000
	piece := []byte(strings.Repeat(`{"query":"{a}"},`, 1000))
	r := callsPlan().NewReader()
	r.Write([]byte("["))
	allocated := testing.AllocsPerRun(calls/1000-1, func() { r.Write(piece) }) // and once before
	assert.Equal(t, allocated, 0, "allocations for a thousand members")
	cut := *r
	cut.End()
	r.Write([]byte("0]"))
	r.End()
	n, reason := r.Batch().Calls(1)
	assert.ErrorIf(t, n != calls || reason != ReasonNone, "%d calls (%s)", n, reason)
	n, reason = cut.Batch().Calls(1)
	assert.ErrorIf(t, n != 1 || reason != ReasonSyntax, "cut off: %d calls (%s)", n, reason)
}

// referenceCalls counts the calls of a document as encoding/json reads it.
func referenceCalls(v *referenceValue) int64 {
	calls := int64(0)
	if v.token == json.Delim('[') {
		for _, member := range v.members {
			if member.token == json.Delim('[') || member.token == json.Delim('{') && slices.ContainsFunc(member.names, referenceOfCall) {
				calls += referenceCalls(member)
			}
		}
		return calls
	}
	return 1
}

// referenceOfCall reports whether a name may be one of a call.
func referenceOfCall(n referenceName) bool {
	const longest = 3*len("documentId") + 64
	join := strings.NewReplacer("_", "", "-", "").Replace
	trimmed := strings.TrimSpace(n.text)
	switch {
	case referenceBroken(n.raw):
		return true
	case len(n.text) > longest:
		return trimmed != n.text || len(join(n.text[:longest])) <= 3*len("documentId")
	}
	return slices.ContainsFunc([]string{"method", "query", "extensions", "documentid", "docid", "url"}, func(name string) bool {
		return strings.EqualFold(join(trimmed), name)
	})
}

// FuzzBatch_reference compares with encoding/json.
func FuzzBatch_reference(f *testing.F) {
	for _, seed := range requestSeeds {
		f.Add([]byte(seed))
	}
	for _, row := range rows(f, "batches.txt", 2) {
		f.Add([]byte(row[0]))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		n, reason := callsPlan().readRequest(body).Batch().Calls(7)
		want := referenceRead(body)
		if want == nil {
			assert.ErrorIf(t, n != 7 || reason == ReasonNone, "%q: %d calls (%s)", body, n, reason)
			return
		}
		assert.Equal(t, n, max(1, referenceCalls(want)), "calls of %q", body)
	})
}

// BenchmarkBatch reads bodies of 1 MiB for their calls, with no other value. They have to be as fast as dense bodies are, see
// [BenchmarkRequest].
func BenchmarkBatch(b *testing.B) {
	for name, member := range map[string]string{
		"rpc":     `{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":"0x6b175474e89094c44da98b954eedeac495271d0f"},"latest"]},`,
		"short":   `{"method":"a","id":1},`,
		"graphql": `{"operationName":"Product","variables":{"id":1},"query":"query Product($id: ID!) { product(id: $id) { name price } }"},`,
		"names":   `{"methods":1,"a_b":2,"c":3,"methot":4,"é":5},`,
		"dense":   `{"id":1,"name":"item","tags":["a","bc"],"ok":true,"n":null},`,
	} {
		data := []byte("[" + strings.Repeat(member, 1<<20/len(member)) + `{"query":"{a}"}]`)
		plan := callsPlan()
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				n, reason := plan.readRequest(data).Batch().Calls(0)
				assert.FatalIf(b, n == 0, "%s", reason)
			}
		})
	}
}
