package usagebody

import (
	"net/http"
	"strings"
	"testing"
)

// BenchmarkBody reads bodies of 10 MB in pieces of 32 kB, as they come from reverse_proxy, with the usage at their
// end, and short ones for a sum of prices.
func BenchmarkBody(b *testing.B) {
	const length, piece, usage = 10 << 20, 32 << 10, `"usage":{"prompt_tokens":1000,"completion_tokens":500}`
	fill := func(text string) string { return strings.Repeat(text, length/len(text)) }
	for name, test := range map[string]struct{ contentType, sum, body string }{
		"text":    {"application/json", "usage.prompt_tokens", `{"choices":[` + fill(`"the model says that a “limit” is reached\n and \"quotes\" it",`) + `0],` + usage + `}`},
		"numbers": {"application/json", "usage.prompt_tokens", `{"data":[` + fill(`-0.0069292834,0.0053364224,`) + `0],` + usage + `}`},
		"objects": {"application/json", "usage.prompt_tokens", `{"items":[` + fill(`{"id":1,"name":"item","tags":["a","bc"],"ok":true},`) + `0],` + usage + `}`},
		"events":  {"text/event-stream", "usage.prompt_tokens", fill(`data: {"id":"c1","choices":[{"index":0,"delta":{"content":" limit"}}],"usage":null}`+"\n\n") + "data: {" + usage + "}\n\n"},
		"prices":  {"application/json", "{a}*usage.prompt_tokens+10*usage.completion_tokens", `{"id":"c1",` + usage + `}`},
	} {
		sum, err := ParseSum(test.sum)
		if err != nil {
			b.Fatal(err)
		}
		var plan Plan
		plan.Add(sum)
		header, data := http.Header{"Content-Type": {test.contentType}}, []byte(test.body)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				body := plan.NewBody(header)
				for rest := data; len(rest) > 0; rest = rest[min(len(rest), piece):] {
					body.Write(rest[:min(len(rest), piece)])
				}
				body.End()
				if n, err := body.Sum(0, func(int) (Factor, error) { return 2.5e6, nil }); n < 1000 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
