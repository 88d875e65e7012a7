package admin

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// replays replays a log through a Caddyfile with the built Caddy, in a folder of its own.
func replays(t *testing.T, caddyfile string, log []byte, args ...string) caddytest.Ending {
	t.Helper()
	if len(args) == 0 || args[len(args)-1] != "-" {
		args = append(args, "access.log")
	}
	return replaysIn(t, replayFolder(t, caddyfile, log), log, args...)
}

// replayFolder returns a folder with a Caddyfile and an access.log.
func replayFolder(t *testing.T, caddyfile string, log []byte) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string][]byte{"Caddyfile": []byte(caddyfile), "access.log": log} {
		assert.Must(t, os.WriteFile(filepath.Join(folder, name), text, 0o600))
	}
	return folder
}

// replaysIn replays in a folder, with a log at the standard input too.
func replaysIn(t *testing.T, folder string, log []byte, args ...string) caddytest.Ending {
	t.Helper()
	return caddytest.Run{Folder: folder, Stdin: bytes.NewReader(log)}.Ratelimit(t, append([]string{"replay", "--config", "Caddyfile"}, args...)...)
}

// played holds the tested fields of a replay's JSON.
type played struct {
	Requests, Denied int64
	Unlimited        int64
	Exempt           int64
	Policies         []struct {
		Name             string
		Requests, Denied int64
		Clients          int
	}
	Log struct {
		Lines, Malformed, Other int64
		Files                   []struct{ Format, Error string }
	}
	Skipped  []string `json:"skipped_handlers"`
	Warnings []string
}

func playedJSON(t *testing.T, caddyfile string, log []byte) (result played) {
	t.Helper()
	e := replays(t, caddyfile, log, "--json")
	if err := json.Unmarshal([]byte(e.Stdout), &result); err != nil || e.Code != 0 {
		t.Fatalf("got %v, %v", e, err)
	}
	return result
}

// logLines returns a log in Common Log Format, a second a line.
func logLines(clients ...string) []byte {
	var log bytes.Buffer
	for i, client := range clients {
		at := time.Date(2026, 1, 2, 3, 4, i, 0, time.UTC)
		fmt.Fprintf(&log, "%s - - [%s] \"GET /p?q=%d HTTP/1.1\" 200 10\n", client, at.Format("02/Jan/2006:15:04:05 -0700"), i)
	}
	return log.Bytes()
}

const perClient = ":80 {\n\tredis_ratelimit {client_ip} 2 1m\n\treverse_proxy 127.0.0.1:1\n}\n"

func TestReplay_refusals(t *testing.T) {
	t.Parallel()
	log := logLines("192.0.2.1", "192.0.2.1", "host.example", "192.0.2.1", "192.0.2.1", "host.example")
	result := playedJSON(t, perClient, log)
	assert.ErrorIf(t, result.Requests != 6 || result.Denied != 2 || len(result.Policies) != 1 || result.Policies[0].Denied != 2 || result.Policies[0].Clients != 2, "got %+v", result)
	assert.ErrorIf(t, len(result.Skipped) != 1 || result.Skipped[0] != "http.handlers.reverse_proxy", "left out: %v", result.Skipped)
	replays(t, perClient, log).Want(t, 0, "6 requests of 2 clients", "2 requests denied (33.3 %)", "192.0.2.1", "reverse_proxy")
}

// TestReplay_routes has matchers, a map, an exemption and several sites.
func TestReplay_routes(t *testing.T) {
	t.Parallel()
	const site = `{
		redis_ratelimit {
			redis redis://user:{env.NOT_THERE}@127.0.0.1:1
		}
	}
	example.com {
		tls internal
		root * /nowhere
		map {header.User-Agent} {plan.limit} {
			~bot 1
			default ""
		}
		handle /api/* {
			redis_ratelimit {
				name api
				limit {plan.limit} 3
				window 1h
				exempt 192.0.2.9
			}
			file_server
		}
		handle {
			respond ok
		}
	}
	other.example.com {
		tls internal
		redis_ratelimit {client_ip} 1 1h {
			name other
		}
		reverse_proxy 127.0.0.1:1
	}`
	line := func(client, host, uri, agent string) string {
		return fmt.Sprintf(`{"level":"info","ts":1790000000.5,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":%q,"client_ip":%q,"proto":"HTTP/2.0","method":"GET","host":%q,"uri":%q,"headers":{"User-Agent":[%q]}},"duration":0.5,"size":3,"status":200,"resp_headers":{}}`+"\n", client, client, host, uri, agent)
	}
	var log strings.Builder
	for range 5 {
		log.WriteString(line("192.0.2.1", "example.com", "/api/x", "browser"))
		log.WriteString(line("192.0.2.2", "example.com", "/api/x", "a bot"))
		log.WriteString(line("192.0.2.9", "example.com", "/api/x", "browser"))
		log.WriteString(line("192.0.2.3", "example.com", "/else", "browser"))
		log.WriteString(line("192.0.2.3", "other.example.com", "/", "browser"))
	}
	result := playedJSON(t, site, []byte(log.String()))
	assert.ErrorIf(t, result.Requests != 25 || result.Unlimited != 5 || result.Exempt != 5 || result.Denied != 2+4+4, "got %+v", result)
}

func TestReplay_badLogs(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, _ = writer.Write(bytes.Repeat(logLines("192.0.2.1"), 5000))
	_ = writer.Close()
	hostile := `192.0.2.1 - - [02/Jan/2026:03:04:05 +0000] "GET /<script>alert(1)</script>?` + "\x1b[2J\x1b]0;title\a" + ` HTTP/1.1" 200 1 "-" "<img src=x onerror=alert(1)>"` + "\n"
	for _, test := range []struct {
		name     string
		log      []byte
		requests int64
		says     string
		code     int
	}{
		{"empty", nil, 0, "no requests", 0},
		{"binary", bytes.Repeat([]byte{0, 1, 2, 0xff, '\n', 0x80}, 50_000), 0, "no requests", 1},
		{"no line of a log", []byte("some\nother\ntext\n"), 0, "no requests", 1},
		{"broken from the beginning", packed.Bytes()[:8], 0, "no requests", 1},
		{"cut off", packed.Bytes()[:packed.Len()/2], -1, "unexpected EOF", 0},
		{"a line of a megabyte", append(append(bytes.Repeat([]byte("x"), 1_500_000), '\n'), logLines("192.0.2.1")...), 1, "could not be read", 0},
		{"hostile text", bytes.Repeat([]byte(hostile), 5), 5, "requests denied", 0},
		{"clock jumps", append(logLines("192.0.2.1"), bytes.ReplaceAll(logLines("192.0.2.1"), []byte("2026"), []byte("1999"))...), 2, "1999", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := replays(t, perClient, test.log, "--report", "report.html", "--suggest", "--changes")
			assert.ErrorIf(t, e.Code != test.code || !strings.Contains(e.Stdout, test.says) || (e.Code != 0) != strings.Contains(e.Stderr, "no request could be read"), "no word of %q in %v", test.says, e)
			if test.code != 0 {
				return
			}
			result := playedJSON(t, perClient, test.log)
			assert.ErrorIf(t, test.requests >= 0 && result.Requests != test.requests, "%d requests, want %d", result.Requests, test.requests)
		})
	}
}

func TestReplay_badFlags(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, caddyfile string
		args            []string
		code            int
		says            string
	}{
		{"no limits", ":80 {\n\trespond ok\n}\n", nil, 2, "no redis_ratelimit"},
		{"no such policy", perClient, []string{"--policy", "unknown"}, 2, "unknown"},
		{"an algorithm without suggest", perClient, []string{"--algorithm", "gcra"}, 1, "--suggest"},
		{"fewer than none", perClient, []string{"--worst", "-1"}, 1, "--worst"},
		{"a bad algorithm", perClient, []string{"--suggest", "--algorithm", "magic"}, 1, "magic"},
		{"an unknown format", perClient, []string{"--format", "iis"}, 1, "--format: no format is called \"iis\": name one of alb, apache"},
		{"a format without a time", perClient, []string{"--format", "$remote_addr $request"}, 1, "--format: no time of requests"},
		{"fields without a time", perClient, []string{"--fields", "client=a,uri=b"}, 1, "--fields: name the key of the time as starts or ends"},
		{"two formats", perClient, []string{"--format", "nginx", "--fields", "ends=a,uri=b"}, 1, "name one of them"},
		{"a bad Caddyfile", ":80 {\n\tredis_ratelimit {client_ip} 0 1m\n}\n", nil, 1, "limit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := replays(t, test.caddyfile, logLines("192.0.2.1"), test.args...)
			assert.ErrorIf(t, e.Code != test.code || !strings.Contains(e.Stderr, test.says), "got %v; want exit code %d and a word of %q", e, test.code, test.says)
		})
	}
	replays(t, perClient, logLines("192.0.2.1"), "-", "--changes").Want(t, 0, "  changed: nothing that this log shows\n") // the standard input
}

// TestReplay_formats has formats asked for, with durations in the lines.
func TestReplay_formats(t *testing.T) {
	t.Parallel()
	const site = ":80 {\n\tredis_ratelimit {\n\t\tkey {client_ip}\n\t\tmax_concurrent 1\n\t}\n\trespond ok\n}\n"
	for _, test := range []struct {
		log  string
		args []string
	}{
		{`%[1]d.5 192.0.2.1 "GET / HTTP/1.1" 0.75` + "\n" + `%[1]d.75 192.0.2.1 "GET / HTTP/1.1" 0.75` + "\n", []string{"--format", `$msec $remote_addr "$request" $request_time`}},
		{`{"t":%[1]d.5,"ip":"192.0.2.1","r":"GET / HTTP/1.1","d":750}` + "\n" + `{"t":%[1]d.75,"ip":"192.0.2.1","r":"GET / HTTP/1.1","d":750}` + "\n",
			[]string{"--fields", "ends=t,client=ip,request=r,duration=d:ms"}},
	} {
		replays(t, site, fmt.Appendf(nil, test.log, 1_790_000_000), test.args...).Want(t, 0, "2 requests of 1 client", "1 request denied (50.0 %)", "times are the end of requests\n")
	}
}

// TestReplay_page plays the log that docs/replay.md names, and wants every line of output that the page shows.
func TestReplay_page(t *testing.T) {
	t.Parallel()
	_, shown, found := strings.Cut(caddytest.ReadFile(t, "docs/replay.md"), "$ caddy redis-ratelimit replay ")
	shown, _, ended := strings.Cut(shown, "\n```")
	assert.FatalIf(t, !found || !ended, "docs/replay.md shows no replay")
	log := assert.NoError(os.ReadFile(caddytest.Path(t, "internal/replay/testdata/nasa-1995-08-01.log.gz")))(t)
	e := replays(t, ":80 {\n\tredis_ratelimit {client_ip} 10 1m\n\trespond ok\n}\n", log)
	e.Want(t, 0)
	for _, line := range strings.Split(shown, "\n")[1:] {
		assert.ErrorIf(t, !strings.Contains(e.Stdout, line+"\n"), "no line %q in:\n%s", line, e.Stdout)
	}
}

// TestReplay_concurrency plays WebSockets beside short requests, and suggests a limit for them.
func TestReplay_concurrency(t *testing.T) {
	t.Parallel()
	line := func(ended, took float64) string {
		return fmt.Sprintf(`{"level":"info","ts":%.1f,"logger":"http.log.access","msg":"handled request","request":{"client_ip":"192.0.2.1","proto":"HTTP/1.1","method":"GET","host":"h","uri":"/"},"duration":%.1f,"size":3,"status":101,"resp_headers":{}}`+"\n", 1_790_000_000+ended, took)
	}
	log := []byte(line(1, 0.5) + line(2, 0.5) + line(3, 2.8) + line(9000, 8999.9) + line(9001, 8999))
	const site = ":80 {\n\tredis_ratelimit {\n\t\tkey {client_ip}\n\t\tmax_concurrent 2\n\t}\n\trespond ok\n}\n"
	replays(t, site, log, "--suggest", "--report", "report.html").Want(t, 0, "5 requests of 1 client", "3 requests denied (60.0 %)", "policy default: 2 requests at once for each client address\n", "at most 3 of one key", "     3       3    3  max_concurrent\n")
	var result struct {
		Policies []struct {
			Running struct {
				Peak    int64
				Busiest []any `json:"busiest_clients"`
			}
		}
	}
	e := replays(t, site, log, "--json", "--worst", "0")
	if err := json.Unmarshal([]byte(e.Stdout), &result); err != nil || result.Policies[0].Running.Peak != 3 || len(result.Policies[0].Running.Busiest) != 0 {
		t.Errorf("got %v, %v", e, err)
	}
}
