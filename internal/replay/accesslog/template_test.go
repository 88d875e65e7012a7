package accesslog

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// readAs reads a log in a format that was asked for.
func readAs(t *testing.T, format, log string) ([]Entry, Summary) {
	t.Helper()
	asked, err := ParseFormat(format)
	assert.FatalIf(t, err != nil, "%s: %v", format, err)
	return readAll(t, ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(log), AtSecondStart: true, Format: asked})
}

// timesOf are the start and the end after second, in milliseconds.
func timesOf(e *Entry) string {
	if e.Ends == 0 {
		return fmt.Sprint((e.Time - second) / 1000)
	}
	return fmt.Sprintf("%d-%d", (e.Time-second)/1000, (e.Ends-second)/1000)
}

// TestParseFormat reads a line by a log_format of nginx or a LogFormat of Apache.
func TestParseFormat(t *testing.T) {
	const at = "15/Jun/2025:15:06:40 +0000"
	for _, tt := range []struct{ name, format, line, want, times string }{
		{"nginx", `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time`,
			`1.2.3.4 - bob [01/Jan/2020 [` + at + `] "GET /a\x22b HTTP/1.1" 200 12 "-" "x \x22 y" 1.500`, `1.2.3.4|bob [01/Jan/2020|GET /a"b HTTP/1.1|200 12||x " y`, "-1500-0"},
		{"nginx, braces", `${remote_addr}x $msec $request_method $request_uri?${status}`, `1.2.3.4x 1750000000.250 GET /a?b?200`, "1.2.3.4||GET /a?b |200 0", "250"},
		{"nginx, the path", `$time_iso8601 $remote_addr $request_method "$uri$is_args$args" $scheme $host`, `2025-06-15T15:06:40+00:00 ::1 GET "/a?b" https a.example:80`,
			"::1||GET /a?b |0 0|||a.example:80", "0"},
		{"nginx, headers", `$realip_remote_addr $remote_addr "$http_x_forwarded_for" $time_iso8601 "$request" "$http_x_api_key"`,
			`10.0.0.1 1.2.3.4 "1.2.3.4, 5.6.7.8" 2025-06-15T15:06:40Z "GET / HTTP/1.1" "k"`, "1.2.3.4||GET / HTTP/1.1|0 0", "0"},
		{"nginx, JSON", `{"at":"$time_iso8601","ip":"$remote_addr","r":"$request","s":$status,"t":$request_time}`,
			`{"at":"2025-06-15T15:06:40Z","ip":"1.2.3.4","r":"GET /\"a HTTP/1.1","s":200,"t":0.5}`, `1.2.3.4||GET /"a HTTP/1.1|200 0`, "-500-0"},
		{"nginx, no client", `[$time_local] "$request" "$http_x_forwarded_for"`, `[` + at + `] "GET / HTTP/1.1" "9.9.9.9, 1.2.3.4"`, "1.2.3.4||GET / HTTP/1.1|0 0", "0"},
		{"nginx, tabs", `$time_local\t$remote_addr\t$request\t$http_user_agent`, at + "\t1.2.3.4\tGET / HTTP/1.1\tx y", "1.2.3.4||GET / HTTP/1.1|0 0||x y", "0"},
		{"nginx, a time with blanks in the middle", `$remote_addr $time_local $status "$request"`, "1.2.3.4 " + at + ` 404 "GET / HTTP/1.1"`, "1.2.3.4||GET / HTTP/1.1|404 0", "0"},
		{"Apache", `%h %l %u %t \"%r\" %>s %b %D`, `1.2.3.4 - jane doe [` + at + `] "GET /a\"b HTTP/1.1" 200 12 1500000`, `1.2.3.4|jane doe|GET /a"b HTTP/1.1|200 12`, "0-1500"},
		{"Apache, a condition and the end", `%v:%p %a %{end:sec}t.%{end:msec_frac}t "%m %U%q %H" %!200,304s %{ms}T`, `a.example:80 1.2.3.4 1750000000.250 "GET /a?b HTTP/1.1" 200 250`,
			"1.2.3.4||GET /a?b HTTP/1.1|200 0|||a.example", "0-250"},
		{"Apache, fractions", `[%{%d/%b/%Y:%T}t.%{usec_frac}t %{%z}t] %{c}a %a "%r" "%{X-Forwarded-For}i" %T`, `[15/Jun/2025:17:06:40.250000 +0200] 10.0.0.1 1.2.3.4 "GET / HTTP/1.1" "-" 1`,
			"1.2.3.4||GET / HTTP/1.1|0 0", "250-1250"},
		{"Apache, microseconds", `%{usec}t %h "%r" 100%%`, `1750000000250000 1.2.3.4 "GET / HTTP/1.1" 100%`, "1.2.3.4||GET / HTTP/1.1|0 0", "250"},
		{"a name", "nginx", `1.2.3.4 - - [` + at + `] "GET / HTTP/1.1" 200 12`, "1.2.3.4||GET / HTTP/1.1|200 12", "0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entries, s := readAs(t, tt.format, tt.line)
			assert.FatalIf(t, len(entries) != 1, "%+v", s.Skipped)
			assert.Equal(t, fieldsOf(&entries[0]), tt.want, "fields")
			assert.Equal(t, timesOf(&entries[0]), tt.times, "times")
			for end := range tt.line { // a file that ends in the middle of its line
				cut, _ := readAs(t, tt.format, tt.line[:end])
				for i := range cut {
					assert.FatalIf(t, cut[i].Client != entries[0].Client, "%s is of %s", tt.line[:end], cut[i].Client)
				}
			}
		})
	}
}

func TestParseFormat_errors(t *testing.T) {
	for format, want := range map[string]string{
		"":                                "no format is called",
		"iis":                             "alb, apache, caddy, cloudflare",
		"$remote_addr $request":           "no time of requests",
		"%h %t":                           "no URI of requests",
		"$remote_addr $msec $request_uri": "no method of requests",
		"$remote_addr$msec $request":      "nothing stands between",
		"$msec $request_uri $http_cookie": "put quotes around one of the two",
		"$http_user_agent $remote_addr $http_referer $msec $request": "put quotes around one of the two",
		"%h %{x":         "no directive",
		"%h %{%Q}t %r":   "of a strftime format only",
		"%h %t \"%r\" %": "no directive",
		strings.Repeat("$status ", 300) + "$msec \"$request\"": "more than 200 fields",
	} {
		_, err := ParseFormat(format)
		assert.ErrorIf(t, err == nil || !strings.Contains(err.Error(), want), "%.60s: %v, want %s", format, err, want)
	}
}

// TestTemplate_hostile has clients write what looks like the fields behind theirs.
func TestTemplate_hostile(t *testing.T) {
	const format = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_user_agent" $request_time`
	const line = `1.1.1.1 - %s [15/Jun/2025:15:06:40 +0000] "GET /%s HTTP/1.1" 200 12 "%s" 0.250`
	for _, text := range []string{
		`x`, `9.9.9.9 - - [15/Jun/2020:15:06:40 +0000] \x22GET /forged HTTP/1.1\x22 500 1`, `\x22 200 12 \x22x\x22 9.9`, `[`, `]`, `] \x22`, ` `, `\`, `\\`, `- -`, `{`, `	`, `é`,
	} {
		log := fmt.Sprintf(line, text, "a", "x") + "\n" + fmt.Sprintf(line, "-", text, "x") + "\n" + fmt.Sprintf(line, "-", "a", text) + "\n"
		entries, s := readAs(t, format, log)
		for i := range entries {
			e := &entries[i]
			assert.ErrorIf(t, e.Client != "1.1.1.1" || timesOf(e) != "-250-0" || e.Status != 200 || e.Method != http.MethodGet, "%q: %+v", text, e)
		}
		assert.ErrorIf(t, int64(len(entries))+s.Total().Malformed != 3, "%q: %d entries, %+v", text, len(entries), s.Skipped)
		assert.ErrorIf(t, len(entries) < 2, "%q: %+v", text, s.Skipped)
	}
}

// TestParseFields reads JSON of other programs.
func TestParseFields(t *testing.T) {
	for _, tt := range []struct{ fields, line, want, times string }{
		{"ends=at,client=ip,request=r,duration=t:ms", `{"at":"2025-06-15T15:06:40.5Z","ip":"1.2.3.4","r":"GET /a HTTP/1.1","t":"250"}`, "1.2.3.4||GET /a HTTP/1.1|0 0", "250-500"},
		{"starts=a.t,ends=a.e,client=b.c.ip,method=m,uri=u,status=s,size=z,agent=g,referer=f,host=h,user=n,proto=p", `{"a":{"t":1750000000,"x":{},"e":1750000002},"b":{"c":{"ip":"[::1]:80","d":1}},` +
			`"m":"GET","u":"/","s":"200","z":5,"g":"x","f":"y","h":"a.example","n":"bob","p":"HTTP/2.0"}`, "::1|bob|GET / HTTP/2.0|200 5|y|x|a.example", "0-2000"},
		{"starts=t,peer=p,forwarded=x,path=u,query=q,method=m,duration=d", `{"t":"[15/Jun/2025:15:06:40 +0000]","p":"1.2.3.4:99","x":"9.9.9.9","u":"/a","q":"?b","m":"GET","d":"1.5s"}`, "1.2.3.4||GET /a?b |0 0", "0-1500"},
		{"starts=t,client=c,uri=u,method=m,duration=d:ns", `{"t":1750000000250,"c":"1.2.3.4","u":"https://a.example/b","m":"GET","d":1000000}`, "1.2.3.4||GET /b |0 0|||a.example", "250-251"},
	} {
		asked := assert.NoError(ParseFields(tt.fields))(t)
		entries, s := readAll(t, ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(tt.line), AtSecondStart: true, Format: asked})
		assert.FatalIf(t, len(entries) != 1, "%s: %+v", tt.line, s.Skipped)
		assert.Equal(t, fieldsOf(&entries[0]), tt.want, "fields of %s", tt.line)
		assert.Equal(t, timesOf(&entries[0]), tt.times, "times of %s", tt.line)
	}
	asked := assert.NoError(ParseFields("ends=t,client=c,uri=u,method=m"))(t)
	for line, why := range map[string]fault{
		`{"t":1750000000,"c":"1.1.1.1","u":"/","c":"9.9.9.9"}`: twiceKey, `{"a":1}`: foreignJSON, `{"t":1750000000,"c":`: brokenJSON,
		`{"t":1750000000,"c":"1.1.1.1","u":"/"} x`: brokenJSON, `{"t":"noon","c":"1.1.1.1","m":"GET","u":"/"}`: noTime, `x`: notJSON,
		`{"t":1750000000,"c":"1.1.1.1","m":"","u":""}`: emptyRequest, `{"t":1750000000,"c":"1.1.1.1","m":"GET"}`: noRequestKeys,
		`{"t":1750000000,"c":"1.1.1.1","u":"/"}`: noRequestKeys,
	} {
		_, s := readAll(t, ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(line), Format: asked})
		assert.FatalIf(t, len(s.Skipped) != 1, "%s: %+v", line, s)
		assert.Equal(t, s.Skipped[0].Reason, why.kind, "%s", line)
	}
}

func TestParseFields_errors(t *testing.T) {
	for fields, want := range map[string]string{
		"":                              "write a name and a key",
		"client=a,uri=b":                "as starts or ends",
		"ends=a,client=b":               "name the key of the URI",
		"ends=a,client=b,uri=c":         "name the key of the method",
		"ends=a,client":                 "write a name and a key",
		"ends=a,took=b":                 "no field is called \"took\"",
		"ends=a,ends=b,uri=c":           "named twice",
		"ends=a,client=a,uri=c":         "named twice",
		"ends=a,uri=c,duration=d:hours": "its unit is s, ms, us or ns",
	} {
		_, err := ParseFields(fields)
		assert.ErrorIf(t, err == nil || !strings.Contains(err.Error(), want), "%s: %v, want %s", fields, err, want)
	}
}

// TestFormats_long_lines reads lines of a mebibyte in every format: none may take longer than its length asks for.
func TestFormats_long_lines(t *testing.T) {
	begins := []string{
		"1.1.1.1 - ", "1.1.1.1 - - [15/Jun/2025:15:06:40 +0000] \"GET /", "{\"a\":\"", "2026-11-27T19:11:05Z stdout F ", "#Fields: ", "1750000000.1 5 1.1.1.1 ",
		"[2026-11-27T19:11:05.302Z] \"", "<165>1 - vm nginx 12 - [a@1 b=\"", "1.1.1.1:80 [15/Jun/2025:15:06:40.300] ", "web-1 | ", "",
	}
	fillers := []string{"[", "]", " ", "\"", "\\", ",", ", ", "1.1.1.1, ", "[15/Jun/2025:15:06:40 +0000] ", "\t", "{", "{\"a\":", ":", "x", "\" 200 "}
	var log strings.Builder
	lines := 0
	for _, begin := range begins {
		for _, filler := range fillers {
			lines++
			log.WriteString(begin + strings.Repeat(filler, (maxLine-len(begin)-1)/len(filler)) + "\n")
		}
	}
	began := time.Now()
	_, s := readText(t, log.String())
	assert.ErrorIf(t, s.Total().Lines != int64(lines), "%d lines, want %d", s.Total().Lines, lines)
	for _, f := range everyFormat() {
		reader := f.newReader(hints{})
		for _, begin := range begins {
			for _, filler := range fillers {
				line := begin + strings.Repeat(filler, maxLine/4/len(filler))
				if trimLine(line) == "" {
					continue
				}
				reader.recognizes(line)
				_, _ = reader.read(line, &Entry{})
			}
		}
	}
	for _, line := range strings.Split(log.String(), "\n") {
		for i := range envelopes {
			if line != "" {
				_, _ = envelopes[i].open(line)
			}
		}
	}
	const quick = 2 * time.Minute // a quadratic reader takes hours
	assert.ErrorIf(t, time.Since(began) > quick, "took %v", time.Since(began))
}

// FuzzParseFormat makes formats of any text and reads any line by them.
func FuzzParseFormat(f *testing.F) {
	f.Add(`$remote_addr - $remote_user [$time_local] "$request" $status`, `1.1.1.1 - - [15/Jun/2025:15:06:40 +0000] "GET / HTTP/1.1" 200`)
	f.Add(`%h %{end:sec}t.%{end:usec_frac}t "%r" %>s %D`, `1.1.1.1 1750000000.123456 "GET / HTTP/1.1" 200 5`)
	f.Add("ends=a.b,client=c,method=m,uri=u,duration=d:ms", `{"a":{"b":1750000000},"c":"x","m":"GET","u":"/","d":1}`)
	f.Fuzz(func(t *testing.T, format, line string) {
		for _, parse := range []func(string) (*Format, error){ParseFormat, ParseFields} {
			asked, err := parse(format)
			if err != nil {
				continue
			}
			file := newFileFormat(&ReaderOptions{Format: asked})
			file.decide([]string{line})
			e := &Entry{}
			if _, why := file.read(line, e); why == noFault {
				assert.FatalIf(t, !plausible(e.Time) && e.Ends == 0 || e.Ends != 0 && e.Ends < e.Time, "%+v", e)
			}
		}
	})
}
