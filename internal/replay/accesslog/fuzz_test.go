package accesslog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// FuzzLine reads any line twice, as a parser that has learned from the first may take another way.
func FuzzLine(f *testing.F) {
	for _, line := range []string{
		clfLine(1, "a"), strings.TrimSpace(clfLine(1, "a")) + ` "-" "x\"\x41\\"`, `a - - [` + clfTime(1) + `] "\" 200 1`,
		caddyLine("1750000000.5", "1.2.3.4"), caddyLine(`"2025-06-15T15:06:40Z"`, `"\u001b`), `{"when":"15/Jun/2025:15:06:40 +0000","request":{"uri":"\""},"size":1}`,
		`{"":{}`, `{"a":"\`, `{"ts":1e9,"request":{"headers":{"A":["b",1,{}],"B":"c","d":[}},"client_ip":""},"duration":-1e99,"size":1}`,
	} {
		f.Add(line)
	}
	for _, line := range []string{responseLine, timedLine(`"06/15/2025 15:06:40"`), timedLine(`"15:06:40"`)} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := newParser(&Options{TimeLayouts: []string{"01/02/2006 15:04:05", "iso8601"}, Responses: true})
		for range 2 {
			e := &Entry{}
			format, reason := p.parse(text, e)
			redistest.FatalIf(t, format >= formats || format == Other && reason != "", "format %d, reason %q", format, reason)
			if format == Other || reason != "" {
				continue
			}
			at := time.UnixMicro(e.Time).UTC()
			redistest.FatalIf(t, at.Year() < 1990 || at.Year() > 2099, "%v", at)
			redistest.FatalIf(t, e.Ends != 0 && e.Ends < e.Time, "ended at %d, before its start at %d", e.Ends, e.Time)
			redistest.FatalIf(t, e.Size < 0 || e.Status < 0 || e.Status > 999, "%+v", e)
			e.fillHeader()
			redistest.FatalIf(t, e.ResponseHeader() == nil, "no header of the response")
			s := Summary{Redacted: map[string]int64{}}
			s.countRedacted(e)
		}
	})
}

// FuzzMembers compares the walk through an object with the standard library.
func FuzzMembers(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { "a" : 1 , "b":[{"c":"}]\""}],"\u0061":null} `, caddyLine("1750000000.5", "1.2.3.4"), `{"a":1,}`, `{"a":1}}`, `{"a\\":{"b":"\\\""},"c":"é"}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want map[string]json.RawMessage
		valid := json.Unmarshal([]byte(text), &want) == nil && want != nil
		got := map[string]string{}
		m := members{text: text}
		for m.next() {
			got[unquote(`"`+m.key+`"`)] = m.value
		}
		if !valid || !utf8.ValidString(text) {
			return
		}
		redistest.FatalIf(t, m.broken || m.skipSpace() != 0 || len(got) != len(want), "%s: got %v, broken %v", text, got, m.broken)
		for key, value := range want {
			redistest.FatalIf(t, got[key] != string(value), "%s: %q is %s, want %s", text, key, got[key], value)
		}
	})
}

// BenchmarkRead reads a log of 200,000 lines from memory, one line an iteration.
func BenchmarkRead(b *testing.B) {
	var clf, combined, caddy strings.Builder
	for i := range 200_000 {
		client := fmt.Sprintf("10.1.%d.%d", i%50, i%200)
		clf.WriteString(clfLine(i/100, client))
		combined.WriteString(strings.TrimSuffix(clfLine(i/100, client), "\n"))
		combined.WriteString(` "https://example.com/a/b/c?d=e" "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1) AppleWebKit/537.36 Chrome/32.0.1700.77 Safari/537.36"` + "\n")
		caddy.WriteString(caddyLine(fmt.Sprintf("%d.%06d", 1750000000+i/100, i*7919%1_000_000), client))
	}
	for name, text := range map[string]string{"clf": clf.String(), "combined": combined.String(), "json": caddy.String(), "clf.gz": string(gzipped(b, clf.String()))} {
		b.Run("format="+name, func(b *testing.B) { benchmarkRead(b, text) })
	}
}

func benchmarkRead(b *testing.B, text string) {
	b.ReportAllocs()
	var r *Reader
	for range b.N {
		if r == nil {
			var err error
			o := Options{Files: []string{"-"}, Stdin: strings.NewReader(text)}
			if r, err = Open(o); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			if s := r.Summary(); s.Total().Malformed > 0 {
				b.Fatal(s.Malformed)
			}
			r = nil
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
