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

func TestCommonReader(t *testing.T) {
	const start = `1.2.3.4 - - [15/Jun/2025:15:06:40 +0000] `
	for _, tt := range []struct {
		name, line string
		format     string
		want       string // fieldsOf the entry
	}{
		{"Common", `host.example - bob [15/Jun/2025:15:06:40 +0000] "GET /a?b=c HTTP/1.1" 200 12`, commonName, "host.example|bob|GET /a?b=c HTTP/1.1|200 12"},
		{"another zone", `1.2.3.4 - - [15/Jun/2025:17:36:40 +0230] "GET / HTTP/1.1" 200 12`, commonName, "1.2.3.4||GET / HTTP/1.1|200 12"},
		{"a zone in the west", `::1 - - [15/Jun/2025:11:06:40 -0400] "GET / HTTP/1.1" 200 12`, commonName, "::1||GET / HTTP/1.1|200 12"},
		{"a user with blanks", `1.2.3.4 - Jane Doe [15/Jun/2025:15:06:40 +0000] "GET / HTTP/2.0" 304 -`, commonName, "1.2.3.4|Jane Doe|GET / HTTP/2.0|304 0"},
		{"no protocol", start + `"GET /old" 200 1`, commonName, "1.2.3.4||GET /old |200 1"},
		{"no size and no status", start + `"GET /" - -`, commonName, "1.2.3.4||GET / |0 0"},
		{"quotes and blanks in the URI", start + `"GET /a"b c".gif HTTP/1.0" 404 -`, commonName, `1.2.3.4||GET /a"b c".gif HTTP/1.0|404 0`},
		{"escaped quotes", start + `"GET /\"a\x22\xc3\xa9\q HTTP/1.0" 200 1`, commonName, `1.2.3.4||GET /"a"é\q HTTP/1.0|200 1`},
		{"a URI that ends in a backslash", start + `"GET /a\" 200 1`, commonName, `1.2.3.4||GET /a\ |200 1`},
		{"no method", start + `"\x16\x03\x01" 400 1`, commonName, "1.2.3.4|| \x16\x03\x01 |400 1"},
		{"no client", `- - - [15/Jun/2025:15:06:40 +0000] "GET / HTTP/1.1" 200 1`, commonName, "||GET / HTTP/1.1|200 1"},
		{"a size beyond all bounds", start + `"GET / HTTP/1.1" 200 99999999999999999999`, commonName, "1.2.3.4||GET / HTTP/1.1|200 9223372036854775807"},
		{"Combined", start + `"GET / HTTP/1.1" 200 1 "https://a.example/\"x\"" "curl/8 (\x41)" extra 0.003`, combinedName,
			`1.2.3.4||GET / HTTP/1.1|200 1|https://a.example/"x"|curl/8 (A)`},
		{"Combined with dashes", start + `"GET / HTTP/1.1" 200 1 "-" "-"`, combinedName, "1.2.3.4||GET / HTTP/1.1|200 1"},
		{"Combined without the last quote", start + `"GET / HTTP/1.1" 200 1 "-" "Mozilla`, combinedName, "1.2.3.4||GET / HTTP/1.1|200 1||Mozilla"},
		{"a byte order mark", "\ufeff" + start + `"GET / HTTP/1.1" 200 12`, commonName, "1.2.3.4||GET / HTTP/1.1|200 12"},
		{"a bracket in the user", `1.2.3.4 - bob [01/Jan/2020 [15/Jun/2025:15:06:40 +0000] "GET / HTTP/1.1" 200 1`, commonName, "1.2.3.4|bob [01/Jan/2020|GET / HTTP/1.1|200 1"},
		{"a time in the user", `1.2.3.4 - a [01/Jan/2020:00:00:00 +0000] \"GET /b HTTP/1.1\" 200 5 [15/Jun/2025:15:06:40 +0000] "GET / HTTP/1.1" 200 1`,
			commonName, `1.2.3.4|a [01/Jan/2020:00:00:00 +0000] \"GET /b HTTP/1.1\" 200 5|GET / HTTP/1.1|200 1`},
		{"status 0", start + `"GET / HTTP/1.1" 0 0`, commonName, "1.2.3.4||GET / HTTP/1.1|0 0"},
		{"status -1", start + `"GET / HTTP/1.1" -1 0 "-" "x"`, combinedName, "1.2.3.4||GET / HTTP/1.1|0 0||x"},
		{"a port", `1.2.3.4:4711 - - [15/Jun/2025:15:06:40 +0000] "GET / HTTP/1.1" 200 1`, commonName, "1.2.3.4||GET / HTTP/1.1|200 1"},
		{"an IPv4 address in IPv6", `::ffff:1.2.3.4 - - [15/Jun/2025:15:06:40 +0000] "GET / HTTP/1.1" 200 1`, commonName, "1.2.3.4||GET / HTTP/1.1|200 1"},
		{"an absolute URL", start + `"GET https://a@site.example:8443/b?c HTTP/1.1" 200 1 "-" "x" extra`, combinedName, "1.2.3.4||GET /b?c HTTP/1.1|200 1||x|site.example:8443"},
		{"a host first", `site.example:80 1.2.3.4 - bob [15/Jun/2025:15:06:40 +0000] "GET / HTTP/1.1" 200 1`, commonName, "1.2.3.4|bob|GET / HTTP/1.1|200 1|||site.example:80"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := newFileFormat(&ReaderOptions{})
			var got Entry
			format, why := file.read(tt.line, &got)
			assert.FatalIf(t, format != tt.format || why != noFault, "%v, %v; want %v", format, why, tt.format)
			assert.ErrorIf(t, fieldsOf(&got) != tt.want || got.Time != second || got.Remote != got.Client, "got %+v, want %s", got, tt.want)
		})
	}
	for _, request := range []string{`""`, `"-"`, `"- http://localhost HTTP/1.0"`} {
		file := newFileFormat(&ReaderOptions{})
		_, why := file.read(start+request+" 408 0", &Entry{})
		assert.Equal(t, why, emptyRequest, "fault of %s", request)
	}
}

// fieldsOf are the client, the user, the request line, status and size, the referer, the agent and the host.
func fieldsOf(e *Entry) string {
	text := fmt.Sprintf("%s|%s|%s %s %s|%d %d|%s|%s|%s", e.Client, e.User, e.Method, e.URI, e.Proto, e.Status, e.Size, e.referer, e.agent, e.Host)
	return strings.TrimRight(text, "|")
}

// TestCommonReader_malformed reads a log in which each line is malformed in another way.
func TestCommonReader_malformed(t *testing.T) {
	text := assert.NoError(os.ReadFile("testdata/malformed.log"))(t)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	assert.ErrorIf(t, len(lines) != 20, "the log has %d lines", len(lines))
	for _, line := range lines {
		file := newFileFormat(&ReaderOptions{})
		format, why := file.read(line, &Entry{})
		assert.ErrorIf(t, why == noFault || why.other, "%s: is taken for %v", line, format)
	}
}

// FuzzLine reads any line twice, as a reader that has learned from the first may take another way.
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
		file := newFileFormat(&ReaderOptions{TimeLayouts: []string{"01/02/2006 15:04:05", "iso8601"}, Responses: true})
		for range 2 {
			e := &Entry{}
			format, why := file.read(text, e)
			assert.FatalIf(t, format == "" && why != blankLine, "no format, %v", why)
			if why != noFault {
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
			o := ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(text)}
			if r, err = Open(o); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			s := r.Summary()
			assert.FatalIf(b, s.Total().Malformed > 0, "%v", s.Skipped)
			r = nil
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

// TestFileFormat reads a file whose first lines decide its format, behind which lines of another one stand.
func TestFileFormat(t *testing.T) {
	file := newFileFormat(&ReaderOptions{})
	for _, tt := range []struct {
		line, name string
		why        fault
	}{
		{"  ", "", blankLine},
		{"\ufeff" + caddyLine("1750000000.5", "1.2.3.4"), caddyJSONName, noFault},
		{`{"level":"info","ts":1750000000.5,"msg":"serving"}`, caddyJSONName, caddyMessage},
		{`{"level":30,"time":1750000000500,"msg":"serving"}`, caddyJSONName, foreignJSON},
		{clfLine(1, "a"), commonName, noFault},
		{" \t" + strings.TrimSpace(clfLine(1, "a")) + ` "-" "-"`, combinedName, noFault},
		{caddyLine("1750000000.5", "1.2.3.4"), caddyJSONName, noFault},
	} {
		name, why := file.read(strings.TrimSuffix(tt.line, "\n"), &Entry{})
		assert.ErrorIf(t, name != tt.name || why != tt.why, "%q is read as %q, %v; want %q, %v", tt.line, name, why, tt.name, tt.why)
	}
	page := string(assert.NoError(os.ReadFile("../../../docs/replay.md"))(t))
	assert.ErrorIf(t, !strings.Contains(page, "Logs are "+FormatNames()+", plain"), "docs/replay.md does not name %s", FormatNames())
	for want, lines := range map[string]map[string]int64{
		"other": nil, commonName: {commonName: 1, combinedName: 1}, combinedName: {commonName: 1, combinedName: 2}, caddyJSONName: {caddyJSONName: 1},
	} {
		assert.Equal(t, (&FileReport{Formats: lines}).Format(), want, "the format of most lines")
	}
}
