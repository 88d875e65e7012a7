package accesslog

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestParser_CLF(t *testing.T) {
	const start = `1.2.3.4 - - [15/Jun/2025:15:06:40 +0000] `
	for _, tt := range []struct {
		name   string
		line   string
		format Format
		want   Entry
	}{
		{"Common", `host.example - bob [15/Jun/2025:15:06:40 +0000] "GET /a?b=c HTTP/1.1" 200 12`, Common,
			Entry{Client: "host.example", User: "bob", Method: "GET", URI: "/a?b=c", Proto: "HTTP/1.1", Status: 200, Size: 12}},
		{"another zone", `1.2.3.4 - - [15/Jun/2025:17:36:40 +0230] "GET / HTTP/1.1" 200 12`, Common,
			Entry{Client: "1.2.3.4", Method: "GET", URI: "/", Proto: "HTTP/1.1", Status: 200, Size: 12}},
		{"a zone in the west", `::1 - - [15/Jun/2025:11:06:40 -0400] "GET / HTTP/1.1" 200 12`, Common,
			Entry{Client: "::1", Method: "GET", URI: "/", Proto: "HTTP/1.1", Status: 200, Size: 12}},
		{"a user with blanks", `1.2.3.4 - Jane Doe [15/Jun/2025:15:06:40 +0000] "GET / HTTP/2.0" 304 -`, Common,
			Entry{Client: "1.2.3.4", User: "Jane Doe", Method: "GET", URI: "/", Proto: "HTTP/2.0", Status: 304}},
		{"no protocol", start + `"GET /old" 200 1`, Common, Entry{Client: "1.2.3.4", Method: "GET", URI: "/old", Status: 200, Size: 1}},
		{"no size and no status", start + `"GET /" - -`, Common, Entry{Client: "1.2.3.4", Method: "GET", URI: "/"}},
		{"quotes and blanks in the URI", start + `"GET /a"b c".gif HTTP/1.0" 404 -`, Common,
			Entry{Client: "1.2.3.4", Method: "GET", URI: `/a"b c".gif`, Proto: "HTTP/1.0", Status: 404}},
		{"escaped quotes", start + `"GET /\"a\x22\xc3\xa9\q HTTP/1.0" 200 1`, Common,
			Entry{Client: "1.2.3.4", Method: "GET", URI: "/\"a\"é\\q", Proto: "HTTP/1.0", Status: 200, Size: 1}},
		{"a URI that ends in a backslash", start + `"GET /a\" 200 1`, Common,
			Entry{Client: "1.2.3.4", Method: "GET", URI: `/a\`, Status: 200, Size: 1}},
		{"no method", start + `"\x16\x03\x01" 400 1`, Common, Entry{Client: "1.2.3.4", URI: "\x16\x03\x01", Status: 400, Size: 1}},
		{"no client", `- - - [15/Jun/2025:15:06:40 +0000] "GET / HTTP/1.1" 200 1`, Common,
			Entry{Method: "GET", URI: "/", Proto: "HTTP/1.1", Status: 200, Size: 1}},
		{"a size beyond all bounds", start + `"GET / HTTP/1.1" 200 99999999999999999999`, Common,
			Entry{Client: "1.2.3.4", Method: "GET", URI: "/", Proto: "HTTP/1.1", Status: 200, Size: 1<<63 - 1}},
		{"Combined", start + `"GET / HTTP/1.1" 200 1 "https://a.example/\"x\"" "curl/8 (\x41)" extra 0.003`, Combined,
			Entry{Client: "1.2.3.4", Method: "GET", URI: "/", Proto: "HTTP/1.1", Status: 200, Size: 1,
				referer: `https://a.example/"x"`, agent: "curl/8 (A)"}},
		{"Combined with dashes", start + `"GET / HTTP/1.1" 200 1 "-" "-"`, Combined,
			Entry{Client: "1.2.3.4", Method: "GET", URI: "/", Proto: "HTTP/1.1", Status: 200, Size: 1}},
		{"Combined without the last quote", start + `"GET / HTTP/1.1" 200 1 "-" "Mozilla`, Combined,
			Entry{Client: "1.2.3.4", Method: "GET", URI: "/", Proto: "HTTP/1.1", Status: 200, Size: 1, agent: "Mozilla"}},
		{"a byte order mark", "\ufeff" + start + `"GET / HTTP/1.1" 200 12`, Common,
			Entry{Client: "1.2.3.4", Method: "GET", URI: "/", Proto: "HTTP/1.1", Status: 200, Size: 12}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newParser(&Options{})
			var got Entry
			format, reason := p.parse(tt.line, &got)
			redistest.FatalIf(t, format != tt.format || reason != "", "%v, %q; want %v", format, reason, tt.format)
			tt.want.Time, tt.want.Remote = second, tt.want.Client
			if got.Header, tt.want.Header = nil, nil; !sameEntry(&got, &tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// sameEntry compares all but the header.
func sameEntry(a, b *Entry) bool {
	x, y := *a, *b
	return x.Time == y.Time && x.Client == y.Client && x.Remote == y.Remote && x.User == y.User &&
		x.Method == y.Method && x.Host == y.Host && x.URI == y.URI && x.Proto == y.Proto &&
		x.Status == y.Status && x.Size == y.Size && x.referer == y.referer && x.agent == y.agent
}

func TestParser_CLF_without_request(t *testing.T) {
	for _, request := range []string{"", "-"} {
		p := newParser(&Options{})
		format, reason := p.parse(`1.2.3.4 - - [15/Jun/2025:15:06:40 +0000] "`+request+`" 408 0`, &Entry{})
		redistest.ErrorIf(t, format != Other || reason != "", "%q: %v, %q", request, format, reason)
	}
}

// TestParser_CLF_malformed reads a log in which each line is malformed in another way.
func TestParser_CLF_malformed(t *testing.T) {
	text, err := os.ReadFile("testdata/malformed.log")
	redistest.Must(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	redistest.ErrorIf(t, len(lines) != 20, "the log has %d lines", len(lines))
	for _, line := range lines {
		p := newParser(&Options{})
		format, reason := p.parse(line, &Entry{})
		redistest.ErrorIf(t, reason == "", "%s: is taken for %v", line, format)
	}
}

func TestClock(t *testing.T) {
	var c clock
	at := time.Date(1995, 2, 27, 22, 59, 58, 0, time.FixedZone("", -5*3600-30*60))
	for range 5000 {
		text := at.Format("02/Jan/2006:15:04:05 -0700")
		for range 2 { // the second answer is remembered
			got, ok := c.read(text)
			redistest.FatalIf(t, !ok || got != at.UnixMicro(), "%s: %d, %v; want %d", text, got, ok, at.UnixMicro())
		}
		at = at.Add(7*time.Hour + 13*time.Minute + 31*time.Second)
	}
}
