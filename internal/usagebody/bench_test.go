package usagebody

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// benchLength is how long the benchmarks' bodies are, and pieceLength how long the pieces in which they
// come, as from reverse_proxy.
const (
	benchLength = 10 << 20
	pieceLength = 32 << 10
)

// benchBodies returns a body of each kind, with the usage at its end.
func benchBodies() map[string]string {
	random := rand.New(rand.NewPCG(1, 2))
	const words = "the model says that a “limit” is reached\\n and \\\"quotes\\\" it while tokens are counted one by one, "
	text := `"` + strings.Repeat(words, 20) + `"`
	bodies := map[string]string{}
	grow := func(name, head string, more func(i int) string) {
		var b strings.Builder
		b.WriteString(head)
		for i := 0; b.Len() < benchLength; i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(more(i))
		}
		b.WriteString(`],"usage":{"input_tokens":10,"total_tokens":4711}}`)
		bodies[name] = b.String()
	}
	grow("text", `{"choices":[`, func(i int) string {
		return fmt.Sprintf(`{"index":%d,"message":{"role":"assistant","content":`, i) + text + `},"finish_reason":"stop"}`
	})
	grow("numbers", `{"data":[`, func(i int) string {
		floats := make([]float32, 1536)
		for i := range floats {
			floats[i] = random.Float32() - 0.5
		}
		list, _ := json.Marshal(floats) // finite ones
		return fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, list)
	})
	grow("pairs", `{"coordinates":[`, func(int) string {
		return fmt.Sprintf("[%.6f,%.6f]", random.Float64()*360-180, random.Float64()*180-90)
	})
	grow("objects", `{"items":[`, func(i int) string {
		return fmt.Sprintf(`{"id":%d,"name":"item %d","tags":["a","bc"],"price":%.2f,"ok":true,"note":null}`, i, i, random.Float64()*100)
	})
	grow("escapes", `{"choices":[`, func(int) string { return `"` + strings.Repeat(`\u00e4\n\"\\`, 100) + `"` })
	var events strings.Builder
	for events.Len() < benchLength {
		events.WriteString(`data: {"id":"chatcmpl-9lMgfRSWPHcw51s6wxKT1YEO2CKpd","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":" limit"},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n")
	}
	bodies["events"] = events.String() + "data: {\"usage\":{\"total_tokens\":4711}}\n\ndata: [DONE]\n\n"
	return bodies
}

// BenchmarkBody reads bodies of 10 MB in pieces of 32 kB.
func BenchmarkBody(b *testing.B) {
	sum, err := ParseSum("usage.total_tokens")
	if err != nil {
		b.Fatal(err)
	}
	var plan Plan
	plan.Add(sum)
	for name, text := range benchBodies() {
		header := http.Header{"Content-Type": {"application/json"}}
		if name == "events" {
			header.Set("Content-Type", "text/event-stream")
		}
		data := []byte(text)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				body := plan.NewBody(header)
				for rest := data; len(rest) > 0; {
					n := min(len(rest), pieceLength)
					body.Write(rest[:n])
					rest = rest[n:]
				}
				body.End()
				if n, err := body.Sum(0, nil); n != 4711 || err != nil {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(b.N)*float64(len(data))/float64(cpuTime(b)-before), "GB/cpu-s")
		})
	}
}

// BenchmarkBody_factors reads an answer of a model, for a sum without factors and for one of prices.
func BenchmarkBody_factors(b *testing.B) {
	data := []byte(`{"id":"chatcmpl-1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."}}],` +
		`"usage":{"prompt_tokens":1000,"completion_tokens":500,"total_tokens":1500,"prompt_tokens_details":{"cached_tokens":400}}}`)
	header := http.Header{"Content-Type": {"application/json"}}
	prices := []string{"2.5", "10", "1.25"}
	for name, text := range map[string]string{
		"without": "usage.prompt_tokens+usage.completion_tokens+usage.prompt_tokens_details.cached_tokens",
		"with":    "2.5*usage.prompt_tokens+10*usage.completion_tokens-1.25*usage.prompt_tokens_details.cached_tokens",
		"prices":  "{a}*usage.prompt_tokens+{b}*usage.completion_tokens-{c}*usage.prompt_tokens_details.cached_tokens",
	} {
		sum, err := ParseSum(text)
		if err != nil {
			b.Fatal(err)
		}
		var plan Plan
		plan.Add(sum)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				body := plan.NewBody(header)
				body.Write(data)
				body.End()
				if n, err := body.Sum(0, func(i int) (Factor, error) {
					f, _ := ParseFactor(prices[i]) // it is one
					return f, nil
				}); n < 1900 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// cpuTime returns the processor's time that this process has used, which other processes disturb less than
// the clock.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
