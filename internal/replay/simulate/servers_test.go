package simulate_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// served is a request of a server's log, as the test reads it by itself. Times are seconds.
type served struct {
	client   string
	at, took float64
	timed    bool // the log has how long it took
	ends     bool // the time is that of the end
	coarse   bool // and a whole second
	playable bool
}

// lineReading reads a line; nil for none.
type lineReading func(line string) *served

// logClock says what the times of a log are. A layout that is empty is for seconds since 1970.
type logClock struct {
	layout string
	ends   bool
	unit   float64 // of durations, in seconds
	plain  bool    // backslashes in requests stand for themselves
}

var (
	clfStart   = logClock{layout: "02/Jan/2006:15:04:05 -0700", unit: 1e-6}
	clfEnd     = logClock{layout: "02/Jan/2006:15:04:05 -0700", ends: true, unit: 1}
	plainStart = logClock{layout: clfStart.layout, plain: true}
	plainEnd   = logClock{layout: clfStart.layout, ends: true, plain: true}
)

// served makes a request of texts.
func (c logClock) served(client, at, took, method, uri string) *served {
	s := &served{client: plainAddress(client), ends: c.ends}
	if n, err := strconv.ParseFloat(at, 64); err == nil && c.layout == "" {
		if s.at = n; n > 1e12 {
			s.at = n / 1000
		}
	} else {
		t, err := time.Parse(cmp.Or(c.layout, time.RFC3339), at)
		if err != nil {
			return nil
		}
		s.at, s.coarse = float64(t.UnixMicro())/1e6, !strings.ContainsAny(at, ".")
	}
	if n, err := strconv.ParseFloat(took, 64); err == nil && n >= 0 {
		s.took, s.timed = n*c.unit, true
	}
	uri = regexp.MustCompile(`^https?://[^/*]*`).ReplaceAllString(uri, "")
	if len(uri) > 1 && uri[0] == '*' {
		uri = "/" + uri
	}
	_, err := url.ParseRequestURI(uri)
	s.playable = err == nil && regexp.MustCompile(`^[A-Za-z_-]+$`).MatchString(method)
	return s
}

// plainAddress is an address without port and list.
func plainAddress(text string) string {
	text = strings.TrimSpace(text[strings.LastIndexByte(text, ',')+1:])
	if a, err := netip.ParseAddrPort(text); err == nil {
		return a.Addr().Unmap().String()
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap().String()
	}
	return strings.TrimPrefix(text, "-")
}

// escape is a byte as nginx and Apache write it.
var escape = regexp.MustCompile(`\\(?:x[0-9a-fA-F]{2}|["\\nrtbv])`)

// unescaped is the byte of an escape.
func unescaped(code string) string {
	if at := strings.IndexByte(`"\nrtbv`, code[1]); at >= 0 {
		return "\"\\\n\r\t\b\v"[at : at+1]
	}
	n, _ := strconv.ParseUint(code[2:], 16, 8)
	return string([]byte{byte(n)})
}

// byPattern reads lines by a regular expression with the groups client, time, request, and took, method and uri.
func byPattern(c logClock, pattern string) lineReading {
	compiled := regexp.MustCompile(pattern)
	return func(line string) *served {
		found := compiled.FindStringSubmatch(line)
		if found == nil {
			return nil
		}
		group := map[string]string{}
		for i, name := range compiled.SubexpNames() {
			group[name] = found[i]
		}
		if request, has := group["request"]; has {
			if request == "" || request[0] == '-' {
				return nil
			}
			if !c.plain {
				request = escape.ReplaceAllStringFunc(request, unescaped)
			}
			method, uri, _ := strings.Cut(request, " ")
			group["method"], group["uri"] = method, regexp.MustCompile(` HTTP/[\d.]+$`).ReplaceAllString(uri, "")
		}
		return c.served(group["client"], group["time"], group["took"], group["method"], group["uri"])
	}
}

// Parts of the patterns.
const (
	clfTime    = ` \[(?P<time>\d\d/\w{3}/\d{4}:[\d:]+ [+-]\d{4})\] `
	clfRequest = `"(?P<request>.*?)" (?:\d{3}|-|0|-1) (?:\d+|-)`
	clfClient  = `^(?P<client>[^ ]+) [^ ]+ .*`
	clf        = clfClient + clfTime + clfRequest
)

// byJSON reads lines of JSON by the paths of client, time, duration, method and URI.
func byJSON(c logClock, client, at, took, method, uri string) lineReading {
	return func(line string) *served {
		var object map[string]any
		line = regexp.MustCompile(`([^\\])(\\x|\\v)`).ReplaceAllString(line, `$1\$2`) // Apache and varnish write no valid JSON
		line = regexp.MustCompile(`: ?-,`).ReplaceAllString(line, `:0,`)
		if json.Unmarshal([]byte(line), &object) != nil {
			return nil
		}
		text := func(path string) string {
			var value any = object
			for key := range strings.SplitSeq(path, ".") {
				members, _ := value.(map[string]any)
				value = members[key]
			}
			switch v := value.(type) {
			case string:
				return regexp.MustCompile(`\\x[0-9a-f]{2}`).ReplaceAllStringFunc(strings.Trim(v, "[]"), unescaped)
			case float64:
				return strconv.FormatFloat(v, 'f', -1, 64)
			}
			return ""
		}
		verb, target := text(method), text(uri)
		if uri == "request" {
			verb, target, _ = strings.Cut(target, " ")
			target = regexp.MustCompile(` HTTP/[\d.]+$`).ReplaceAllString(target, "")
		}
		if text(client) == "" || uri != "request.uri" && (verb == "" || verb == "-") && (target == "" || target[0] == '-') {
			return nil
		}
		duration := text(took)
		if d, err := time.ParseDuration(duration); err == nil {
			duration = fmt.Sprint(d.Seconds())
		}
		return c.served(text(client), text(at), duration, verb, target)
	}
}

// behind reads what is behind a prefix.
func behind(prefix string, read lineReading) lineReading {
	compiled := regexp.MustCompile(prefix)
	return func(line string) *served {
		at := compiled.FindStringIndex(line)
		if at == nil {
			return nil
		}
		return read(line[at[1]:])
	}
}

// inside reads the text that is a member of JSON.
func inside(key string, read lineReading) lineReading {
	return func(line string) *served {
		var object map[string]any
		if json.Unmarshal([]byte(line), &object) != nil {
			return nil
		}
		text, _ := object[key].(string)
		return read(strings.TrimSpace(text))
	}
}

// count counts what a limiter of 5 in 10 s would deny, with requests in whole seconds spread over them.
func count(list []*served) (clients int, denied int64) {
	seconds := map[float64][]*served{}
	for _, s := range list {
		if s.coarse {
			seconds[s.at] = append(seconds[s.at], s)
		}
	}
	for at, group := range seconds {
		for i, s := range group {
			s.at = at + (float64(i)+0.5)/float64(len(group))
		}
	}
	for _, s := range list {
		if s.ends && s.timed {
			s.at -= s.took
		}
	}
	slices.SortStableFunc(list, func(a, b *served) int { return cmp.Compare(a.at, b.at) })
	admitted, seen := map[string][]float64{}, map[string]bool{}
	for _, s := range list {
		seen[s.client] = true
		if !s.playable {
			continue
		}
		recent := slices.DeleteFunc(admitted[s.client], func(at float64) bool { return at <= s.at-10 })
		if len(recent) >= 5 {
			denied++
		} else {
			recent = append(recent, s.at)
		}
		admitted[s.client] = recent
	}
	return len(seen), denied
}

const (
	combinedTail = ` "(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*"`
)

var caddyEnd = logClock{ends: true, unit: 1}

// caddyLines reads Caddy's JSON.
var caddyLines = byJSON(caddyEnd, "request.client_ip", "ts", "duration", "request.method", "request.uri")

// serverLogs are logs of real servers, with how replay is told to read them and how the test reads them by itself.
var serverLogs = []struct {
	name           string
	format, fields string
	read           lineReading
}{
	{"apache-combined.log", "", "", byPattern(clfStart, clf)},
	{"apache-combined.log", "apache", "", byPattern(clfStart, clf)},
	{"apache-combinedio.log", "", "", byPattern(clfStart, clf)},
	{"apache-combined_D.log", `%h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\" %D`, "", byPattern(clfStart, clf+combinedTail+` (?P<took>\d+)`)},
	{"apache-D_early.log", `%h %l %u %t %D "%r" %>s %O "%{Referer}i" "%{User-Agent}i"`, "", byPattern(clfStart, clfClient+clfTime+`(?P<took>\d+) `+clfRequest)},
	{"apache-vhost_combined.log", "", "", byPattern(clfStart, `^[^ ]+ `+clf[1:])},
	{"apache-mUqH.log", "", "", byPattern(clfStart, clf)},
	{"apache-xff_first.log", "", "", byPattern(clfStart, `^(?:[\d.]+, [\d.]+|[^ ]+) (?P<client>[\da-f.:]+) - .*`+clfTime+clfRequest)},
	{"apache-json.log", "", "starts=time,client=client,request=request,status=status,duration=us:us",
		byJSON(logClock{layout: "2006-01-02T15:04:05-0700", unit: 1e-6}, "client", "time", "us", "", "request")},
	{"apache-like-caddy.log", "", "", caddyLines},
	{"caddy-json.log", "", "", caddyLines},
	{"caddy-append.log", "", "", caddyLines},
	{"caddy-filter.log", "", "", caddyLines},
	{"caddy-iso.log", "", "", byJSON(logClock{layout: "2006-01-02T15:04:05.000Z0700", ends: true, unit: 1}, "request.client_ip", "ts", "duration", "request.method", "request.uri")},
	{"caddy-rename.log", "", "", byJSON(caddyEnd, "request.remote_ip", "ts", "duration", "request.method", "request.uri")},
	{"caddy-rolled.log.gz", "", "", caddyLines},
	{"caddy-console.log", "", "", func(line string) *served {
		columns := strings.Split(line, "\t")
		return byJSON(logClock{layout: "2006/01/02 15:04:05.000", ends: true, unit: 1}, "request.client_ip", "at", "duration", "request.method", "request.uri")(
			`{"at":"` + columns[0] + `",` + strings.TrimPrefix(columns[len(columns)-1], "{"))
	}},
	{"fastify-pino.log", "", "starts=time,client=req.remoteAddress,method=req.method,uri=req.url", byJSON(logClock{}, "req.remoteAddress", "time", "", "req.method", "req.url")},
	{"pino-http.log", "", "ends=time,client=req.remoteAddress,method=req.method,uri=req.url,status=res.statusCode,duration=responseTime:ms",
		byJSON(logClock{ends: true, unit: 1e-3}, "req.remoteAddress", "time", "responseTime", "req.method", "req.url")},
	{"go-gorilla.log", "gorilla", "", byPattern(clfStart, clf)},
	{"gunicorn-default.log", "gunicorn", "", byPattern(plainEnd, clf)},
	{"gunicorn-D.log", "", "", byPattern(clfEnd, clf)},
	{"h2o-default.log", "", "", byPattern(clfStart, clf)},
	{"h2o-default.log", "h2o", "", byPattern(plainStart, clf)},
	{"haproxy-httplog.log", "", "", haproxyLines},
	{"haproxy-httpslog.log", "", "", haproxyLines},
	{"haproxy-httplog-syslog.log", "", "", behind(`^[^ ]+ [^ ]+ haproxy\[\d+\]: `, haproxyLines)},
	{"haproxy-clf.log", "", "", haproxyCLF},
	{"haproxy-clf-syslog-traditional.log", "", "", behind(`^\w+ \d+ [\d:]+ [^ ]+ haproxy\[\d+\]: `, haproxyCLF)},
	{"haproxy-json.log", "", "starts=ts,client=client,method=method,uri=uri,status=status,duration=ms:ms", byJSON(logClock{unit: 1e-3}, "client", "ts", "ms", "method", "uri")},
	{"lighttpd-default.log", "", "", byPattern(clfEnd, clf)},
	{"morgan-combined.log", "morgan", "", byPattern(clfEnd, clf)},
	{"morgan-common.log", "", "", byPattern(clfEnd, clf)},
	{"nginx-combined.log", "", "", byPattern(clfEnd, clf)},
	{"nginx-combined.log", "nginx", "", byPattern(clfEnd, clf)},
	{"nginx-main.log", "", "", byPattern(clfEnd, clf)},
	{"nginx-none.log", "", "", byPattern(clfEnd, clf)},
	{"nginx-vhost.log", "", "", byPattern(clfEnd, `^[^ ]+ `+clf[1:])},
	{"nginx-vhost.log", "$host $remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\"", "",
		byPattern(clfEnd, `^[^ ]+ `+clf[1:])},
	{"nginx-timed.log", `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_time $upstream_response_time`, "",
		byPattern(clfEnd, clf+combinedTail+` (?P<took>[\d.]+)`)},
	{"nginx-timed_early.log", `$remote_addr - $remote_user [$time_local] $request_time "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`, "",
		byPattern(clfEnd, clfClient+clfTime+`(?P<took>[\d.]+) `+clfRequest)},
	{"nginx-ingress.log", "", "", byPattern(clfEnd, clf+combinedTail+` \d+ (?P<took>[\d.]+)`)},
	{"nginx-iso.log", `$remote_addr - $remote_user [$time_iso8601] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`, "",
		byPattern(logClock{ends: true}, clfClient+` \[(?P<time>\d{4}-[\dT:+-]+)\] `+clfRequest)},
	{"nginx-msec.log", `$msec $remote_addr "$request" $status $body_bytes_sent $request_time`, "",
		byPattern(logClock{ends: true, unit: 1}, `^(?P<time>[\d.]+) (?P<client>[^ ]+) `+clfRequest+` (?P<took>[\d.]+)`)},
	{"nginx-ltsv.log", `time:$time_local\thost:$remote_addr\tforwardedfor:$http_x_forwarded_for\treq:$request\tstatus:$status\tsize:$body_bytes_sent\treferer:$http_referer\tua:$http_user_agent\treqtime:$request_time\tvhost:$host`, "",
		byPattern(clfEnd, `^time:(?P<time>[^\t]+)\thost:(?P<client>[^\t]+)\t[^\t]+\treq:(?P<request>[^\t]*)\t.*\treqtime:(?P<took>[\d.]+)`)},
	{"nginx-json.log", "", "ends=time_local,client=remote_addr,request=request,status=status,duration=request_time", byJSON(clfEnd, "remote_addr", "time_local", "request_time", "", "request")},
	{"nginx-json_iso.log", "", "ends=msec,client=remote_addr,method=method,uri=uri,status=status,duration=request_time", byJSON(caddyEnd, "remote_addr", "msec", "request_time", "method", "uri")},
	{"nginx-json_caddy.log", "", "", caddyLines},
	{"nginx-syslog-debian12.log", "", "", behind(`^[^ ]+ vm nginx: `, byPattern(clfEnd, clf))},
	{"spec-aws-alb.log", "", "", byPattern(logClock{}, `^https [^ ]+ [^ ]+ (?P<client>[^ ]+) .* (?P<status>\d+) \d+ \d+ \d+ "(?P<request>[^"]*)" .* (?P<time>\d{4}-[\dT:.-]+Z) "`)},
	{"spec-aws-s3.log", "", "", byPattern(clfStart, `^\w+ bucket`+clfTime+`(?P<client>[^ ]+) .*? "(?P<request>[^"]*)" \d+`)},
	{"spec-aws-cloudfront.log", "", "", byPattern(logClock{layout: "2006-01-02\t15:04:05", ends: true, unit: 1},
		`^(?P<time>[\d-]+\t[\d:]+)\t\w+\t\d+\t(?P<client>[^\t]+)\t(?P<method>[^\t]+)\t[^\t]+\t(?P<uri>[^\t]+)\t\d+(?:\t[^\t]+){9}\t(?P<took>[\d.]+)\t`)},
	{"spec-cloudflare-json.log", "", "", byJSON(logClock{}, "ClientIP", "EdgeStartTimestamp", "", "ClientRequestMethod", "ClientRequestURI")},
	{"spec-azure-appgw.log", "", "ends=timeStamp,client=properties.clientIP,method=properties.httpMethod,path=properties.requestUri,query=properties.requestQuery,duration=properties.timeTaken",
		byJSON(caddyEnd, "properties.clientIP", "timeStamp", "properties.timeTaken", "properties.httpMethod", "properties.requestUri")},
	{"spec-iis-w3c.log", "", "", byPattern(logClock{layout: "2006-01-02 15:04:05", ends: true, unit: 1e-3},
		`^(?P<time>[\d-]+ [\d:]+) [\d.]+ (?P<method>[^ ]+) (?P<uri>[^ ]+) [^ ]+ 443 - (?P<client>[^ ]+) .* (?P<took>\d+)$`)},
	{"tomcat-w3c.log", "", "", byPattern(logClock{layout: "2006-01-02 15:04:05", unit: 1},
		`^(?P<time>[\d-]+ [\d:]+) (?P<client>[^ ]+) [^ ]+ (?P<method>[^ ]+) (?P<uri>.*) \d+ [-\d]+ (?P<took>[\d.]+)$`)},
	{"tomcat-default.log", "tomcat", "", byPattern(clfEnd, clf)},
	{"tomcat-json.log", "", "ends=time,client=host,request=request,status=statusCode", byJSON(clfEnd, "host", "time", "", "", "request")},
	{"spec-caddy-compose-prefix.log", "", "", behind(`^caddy-1  \| `, caddyLines)},
	{"spec-caddy-docker-json-file.log", "", "", inside("log", caddyLines)},
	{"spec-caddy-journal-short.log", "", "", behind(`^.*? caddy\[123\]: `, caddyLines)},
	{"spec-docker-compose-prefix.log", "", "", behind(`^web-1  \| `, byPattern(clfEnd, clf))},
	{"spec-docker-json-file.log", "", "", inside("log", byPattern(clfEnd, clf))},
	{"spec-docker-logs-t.log", "", "", behind(`^[\dT:.-]+Z `, byPattern(clfEnd, clf))},
	{"spec-journal-json.log", "", "", inside("MESSAGE", byPattern(clfEnd, clf))},
	{"spec-journal-short.log", "", "", behind(`^.*? nginx\[123\]: `, byPattern(clfEnd, clf))},
	{"spec-envoy-default.log", "", "", byPattern(logClock{unit: 1e-3},
		`^\[(?P<time>[^\]]+)\] "(?P<request>[^"]*)" \d+ - \d+ \d+ (?P<took>\d+) \d+ "(?P<client>[^"]*)" "test`)},
	{"spec-traefik-common.log", "", "", byPattern(clfStart, `^(?P<client>[\da-f.:]+(?:, [\d.]+)*) - - `+clfTime[1:]+clfRequest)},
	{"squid-native.log", "", "", byPattern(logClock{ends: true, unit: 1e-3, plain: true},
		`^(?P<time>[\d.]+) +(?P<took>\d+) (?P<client>[^ ]+) \w+/\d+ \d+ (?P<method>[^ -]+) (?P<uri>.*) [^ ]+ [^ ]+ [^ ]+$`)},
	{"squid-common.log", "", "", byPattern(plainEnd, clf)},
	{"squid-combined.log", "", "", byPattern(plainEnd, clf)},
	{"varnishncsa-default.log", "", "", byPattern(clfStart, clf)},
	{"varnishncsa-c-b.log", "", "", byPattern(clfStart, clf)},
	{"varnishncsa-xff-D.log", "", "", byPattern(clfStart, `^(?P<client>[\da-f.:]+|[^ ]*, [\d.]+|[^ ]*, [\d.]+, [\d.]+) - .*`+clfTime+clfRequest+combinedTail+` (?P<took>\d+)`)},
	{"varnishncsa-json.log", "", "starts=@timestamp,client=remoteip,method=method,uri=url,status=status,duration=duration_usec:us",
		byJSON(logClock{layout: "2006-01-02T15:04:05-0700", unit: 1e-6}, "remoteip", "@timestamp", "duration_usec", "method", "url")},
	{"uwsgi-clf.log", "uwsgi", "", byPattern(plainStart, clf)},
}

var (
	haproxyLines = byPattern(logClock{layout: "02/Jan/2006:15:04:05.000", plain: true}, `^(?P<client>[^ ]+):\d+ \[(?P<time>[^\]]+)\] .*?"(?P<request>.*)"`)
	haproxyCLF   = func(line string) *served {
		s := byPattern(plainStart, clf)(line)
		if found := regexp.MustCompile(` \d+ (\d+) "fe_clf"`).FindStringSubmatch(line); s != nil && found != nil {
			ms, _ := strconv.ParseFloat(found[1], 64)
			s.at, s.coarse = s.at+ms/1000, false
		}
		return s
	}
)

// TestReplay_reads_the_logs_of_servers_as_others_would counts requests, clients and denials of each log by itself.
func TestReplay_reads_the_logs_of_servers_as_others_would(t *testing.T) {
	logs := openServerLogs(t)
	for _, tt := range serverLogs {
		t.Run(tt.name+" "+tt.format[:min(8, len(tt.format))], func(t *testing.T) {
			var list []*served
			for line := range strings.Lines(string(logs[tt.name])) {
				if s := tt.read(strings.TrimRight(line, "\r\n")); s != nil {
					list = append(list, s)
				}
			}
			clients, denied := count(list)
			got := playServerLog(t, logs[tt.name], tt.format, tt.fields)
			assert.ErrorIf(t, got.Requests != int64(len(list)) || got.Clients != clients || got.Denied != denied || denied == 0,
				"%d requests of %d clients, %d denied; want %d of %d, %d: %+v", got.Requests, got.Clients, got.Denied, len(list), clients, denied, got.Log)
		})
	}
}

// openServerLogs reads the logs of real servers by name.
func openServerLogs(t *testing.T) map[string][]byte {
	t.Helper()
	const folder = "../testdata/servers"
	logs := map[string][]byte{}
	for _, file := range assert.NoError(os.ReadDir(folder))(t) {
		text := assert.NoError(os.ReadFile(filepath.Join(folder, file.Name())))(t)
		if strings.HasSuffix(file.Name(), ".gz") {
			unpacked := assert.NoError(gzip.NewReader(bytes.NewReader(text)))(t)
			text = assert.NoError(io.ReadAll(unpacked))(t)
		}
		logs[file.Name()] = text
	}
	return logs
}

// playServerLog plays a log through a limit of 5 requests in 10 s.
func playServerLog(t *testing.T, log []byte, format, fields string) *replay.Result {
	t.Helper()
	r := simulateCaddyfile(t, nasaSite("5 10s", "sliding_window_log"))
	o := r.LogOptions()
	o.Files, o.Stdin = []string{"-"}, bytes.NewReader(log)
	switch {
	case format != "":
		o.Format = assert.NoError(accesslog.ParseFormat(format))(t)
	case fields != "":
		o.Format = assert.NoError(accesslog.ParseFields(fields))(t)
	}
	reader := assert.NoError(accesslog.Open(o))(t)
	t.Cleanup(func() { _ = reader.Close() })
	return assert.NoError(replay.Run(reader, r, replay.RunOptions{}))(t)
}

// unreadableLogs are logs that replay cannot read without being told their format, or at all.
var unreadableLogs = []string{
	"express-winston.log", "fastify-pino.log", "go-chi.log", "go-fiber.log", "go-gin.log", "haproxy-default.log", "haproxy-tcplog.log",
	"http-server.log", "koa-logger.log", "morgan-dev.log", "morgan-short.log", "morgan-tiny.log", "nginx-json.log", "serve.log",
	"uvicorn-default.log", "uwsgi-default.log", "spec-gcs-csv.log", "nginx-msec.log", "nginx-ltsv.log", "nginx-iso.log",
}

// TestReplay_says_what_it_cannot_read plays logs whose lines have no client, no time, or are JSON that is not known.
func TestReplay_says_what_it_cannot_read(t *testing.T) {
	logs := openServerLogs(t)
	for _, name := range unreadableLogs {
		got := playServerLog(t, logs[name], "", "")
		assert.ErrorIf(t, got.Requests != 0 || got.Log.Malformed == 0 || len(got.Log.MalformedExamples) == 0 || got.Log.Files[0].Error == "",
			"%s: %d requests, %+v", name, got.Requests, got.Log)
	}
}

// oddLogs are logs of which no client is denied, or some lines cannot be read, with how many lines are what.
var oddLogs = map[string]struct{ requests, malformed, other int64 }{
	"caddy-filter_delete_client.log": {60, 0, 0}, // all are of one client, who has no name
	"nginx-xff_first.log":            {81, 3, 0}, // clients that bring blanks along make other words of three lines
	"odd-lines.log":                  {9, 7, 2},  // each line is another form
}

// TestReplay_reads_what_it_can_of_odd_logs plays logs of which some lines are none of a request, or of a client.
func TestReplay_reads_what_it_can_of_odd_logs(t *testing.T) {
	logs := openServerLogs(t)
	for name, want := range oddLogs {
		got := playServerLog(t, logs[name], "", "")
		assert.ErrorIf(t, got.Requests != want.requests || got.Log.Malformed != want.malformed || got.Log.Other != want.other,
			"%s: %d requests, want %d; %+v", name, got.Requests, want.requests, got.Log)
	}
}

// TestServerLogs_are_played compares the logs that are there with those that the tests play.
func TestServerLogs_are_played(t *testing.T) {
	played := slices.AppendSeq(slices.Clone(unreadableLogs), maps.Keys(oddLogs))
	for _, tt := range serverLogs {
		played = append(played, tt.name)
	}
	slices.Sort(played)
	there := slices.Sorted(maps.Keys(openServerLogs(t)))
	assert.Equal(t, strings.Join(there, "\n"), strings.Join(slices.Compact(played), "\n"), "the logs")
}
