package accesslog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestParser_CLF(t *testing.T) {
	const start = `1.2.3.4 - - [15/Jun/2025:15:06:40 +0000] `
	for _, tt := range []struct {
		name, line string
		format     Format
		want       string // fieldsOf the entry
	}{
		{"Common", `host.example - bob [15/Jun/2025:15:06:40 +0000] "GET /a?b=c HTTP/1.1" 200 12`, Common, "host.example|bob|GET /a?b=c HTTP/1.1|200 12"},
		{"another zone", `1.2.3.4 - - [15/Jun/2025:17:36:40 +0230] "GET / HTTP/1.1" 200 12`, Common, "1.2.3.4||GET / HTTP/1.1|200 12"},
		{"a zone in the west", `::1 - - [15/Jun/2025:11:06:40 -0400] "GET / HTTP/1.1" 200 12`, Common, "::1||GET / HTTP/1.1|200 12"},
		{"a user with blanks", `1.2.3.4 - Jane Doe [15/Jun/2025:15:06:40 +0000] "GET / HTTP/2.0" 304 -`, Common, "1.2.3.4|Jane Doe|GET / HTTP/2.0|304 0"},
		{"no protocol", start + `"GET /old" 200 1`, Common, "1.2.3.4||GET /old |200 1"},
		{"no size and no status", start + `"GET /" - -`, Common, "1.2.3.4||GET / |0 0"},
		{"quotes and blanks in the URI", start + `"GET /a"b c".gif HTTP/1.0" 404 -`, Common, `1.2.3.4||GET /a"b c".gif HTTP/1.0|404 0`},
		{"escaped quotes", start + `"GET /\"a\x22\xc3\xa9\q HTTP/1.0" 200 1`, Common, `1.2.3.4||GET /"a"é\q HTTP/1.0|200 1`},
		{"a URI that ends in a backslash", start + `"GET /a\" 200 1`, Common, `1.2.3.4||GET /a\ |200 1`},
		{"no method", start + `"\x16\x03\x01" 400 1`, Common, "1.2.3.4|| \x16\x03\x01 |400 1"},
		{"no client", `- - - [15/Jun/2025:15:06:40 +0000] "GET / HTTP/1.1" 200 1`, Common, "||GET / HTTP/1.1|200 1"},
		{"a size beyond all bounds", start + `"GET / HTTP/1.1" 200 99999999999999999999`, Common, "1.2.3.4||GET / HTTP/1.1|200 9223372036854775807"},
		{"Combined", start + `"GET / HTTP/1.1" 200 1 "https://a.example/\"x\"" "curl/8 (\x41)" extra 0.003`, Combined,
			`1.2.3.4||GET / HTTP/1.1|200 1|https://a.example/"x"|curl/8 (A)`},
		{"Combined with dashes", start + `"GET / HTTP/1.1" 200 1 "-" "-"`, Combined, "1.2.3.4||GET / HTTP/1.1|200 1"},
		{"Combined without the last quote", start + `"GET / HTTP/1.1" 200 1 "-" "Mozilla`, Combined, "1.2.3.4||GET / HTTP/1.1|200 1||Mozilla"},
		{"a byte order mark", "\ufeff" + start + `"GET / HTTP/1.1" 200 12`, Common, "1.2.3.4||GET / HTTP/1.1|200 12"},
		{"an empty request", start + `"" 408 0`, Other, ""},
		{"no request", start + `"-" 408 0`, Other, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newParser(&Options{})
			var got Entry
			format, reason := p.parse(tt.line, &got)
			assert.FatalIf(t, format != tt.format || reason != "", "%v, %q; want %v", format, reason, tt.format)
			assert.ErrorIf(t, format != Other && (fieldsOf(&got) != tt.want || got.Time != second || got.Remote != got.Client), "got %+v, want %s", got, tt.want)
		})
	}
}

// fieldsOf are the client, the user, the request line, status and size, the referer, the agent and the host.
func fieldsOf(e *Entry) string {
	text := fmt.Sprintf("%s|%s|%s %s %s|%d %d|%s|%s|%s", e.Client, e.User, e.Method, e.URI, e.Proto, e.Status, e.Size, e.referer, e.agent, e.Host)
	return strings.TrimRight(text, "|")
}

// TestParser_CLF_malformed reads a log in which each line is malformed in another way.
func TestParser_CLF_malformed(t *testing.T) {
	text := assert.NoError(os.ReadFile("testdata/malformed.log"))(t)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	assert.ErrorIf(t, len(lines) != 20, "the log has %d lines", len(lines))
	for _, line := range lines {
		p := newParser(&Options{})
		format, reason := p.parse(line, &Entry{})
		assert.ErrorIf(t, reason == "", "%s: is taken for %v", line, format)
	}
}

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
			assert.FatalIf(t, format >= formats || format == Other && reason != "", "format %d, reason %q", format, reason)
			if format == Other || reason != "" {
				continue
			}
			at := time.UnixMicro(e.Time).UTC()
			assert.FatalIf(t, at.Year() < 1990 || at.Year() > 2099, "%v", at)
			assert.FatalIf(t, e.Ends != 0 && e.Ends < e.Time, "ended at %d, before its start at %d", e.Ends, e.Time)
			assert.FatalIf(t, e.Size < 0 || e.Status < 0 || e.Status > 999, "%+v", e)
			e.fillHeader()
			assert.FatalIf(t, e.ResponseHeader() == nil, "no header of the response")
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
		assert.FatalIf(t, m.broken || m.skipSpace() != 0 || len(got) != len(want), "%s: got %v, broken %v", text, got, m.broken)
		for key, value := range want {
			assert.FatalIf(t, got[key] != string(value), "%s: %q is %s, want %s", text, key, got[key], value)
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
			s := r.Summary()
			assert.FatalIf(b, s.Total().Malformed > 0, "%v", s.Malformed)
			r = nil
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

func TestFormat_String(t *testing.T) {
	for format, want := range map[Format]string{Other: "other", Common: "Common Log Format", Combined: "Combined Log Format", CaddyJSON: "Caddy JSON"} {
		assert.Equal(t, format.String(), want, "the name")
	}
}
