package admin

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// contents returns the files of a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries := assert.NoError(os.ReadDir(folder))(t)
	for _, entry := range entries {
		text := assert.NoError(os.ReadFile(filepath.Join(folder, entry.Name())))(t)
		files[entry.Name()] = string(text)
	}
	return files
}

func TestReplay_outputIsInput(t *testing.T) {
	t.Parallel()
	log := logLines("192.0.2.1")
	for name, args := range map[string][]string{
		"the log":                    {"--report", "access.log", "access.log"},
		"the log by another path":    {"--report", "./access.log", "access.log"},
		"the log by another name":    {"--report", "link", "access.log"},
		"the configuration":          {"--report", "Caddyfile", "access.log"},
		"into a folder that is none": {"--report", "nowhere/report.html", "access.log"},
		"a folder":                   {"--report", ".", "access.log"},
		"what is imported":           {"--report", "sites", "access.log"},
		"an import without tokens":   {"--report", "./empty", "access.log"},
		"an import by another name":  {"--report", "soft", "access.log"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := replayFolder(t, "import sites\nimport empt*\n", log)
			assert.Must(t, errors.Join(
				os.WriteFile(filepath.Join(folder, "sites"), []byte(perClient), 0o600),
				os.WriteFile(filepath.Join(folder, "empty"), nil, 0o600),
				os.Link(filepath.Join(folder, "access.log"), filepath.Join(folder, "link")),
				os.Symlink("sites", filepath.Join(folder, "soft"))))
			before := contents(t, folder)
			e := replaysIn(t, folder, nil, args...)
			assert.ErrorIf(t, e.Code != 1 || e.Stdout != "" || e.Stderr == "", "got %v", e)
			after := contents(t, folder)
			assert.ErrorIf(t, !maps.Equal(before, after), "before %q, after %q", before, after)
		})
	}
}

func TestReplay_olderFiles(t *testing.T) {
	t.Parallel()
	folder := replayFolder(t, perClient, logLines("192.0.2.1"))
	report := filepath.Join(folder, "report.html")
	if err := os.WriteFile(report, []byte("<!DOCTYPE html>older"), 0o640); err != nil { //nolint:gosec // the mode must stay
		t.Fatal(err)
	}
	args := []string{"--report", "report.html", "-"}
	replaysIn(t, folder, []byte("no log\n"), args...).Want(t, 1)
	files := contents(t, folder)
	assert.ErrorIf(t, len(files) != 3 || files["report.html"] != "<!DOCTYPE html>older", "after a log that cannot be read: %q", files)
	replaysIn(t, folder, logLines("192.0.2.1"), args...).Want(t, 0)
	files = contents(t, folder)
	assert.ErrorIf(t, len(files) != 3 || !strings.Contains(files["report.html"], "</html>"), "after a log: %q", files)
	info, err := os.Stat(report)
	assert.ErrorIf(t, err != nil || info.Mode() != 0o640, "%v, %v", info, err)
}

// TestReplay_withoutRequests plays files of which no line is a request, alone and beside a log: each is an error that
// shows its first line, and the log beside it is played and reported.
func TestReplay_withoutRequests(t *testing.T) {
	t.Parallel()
	folder := replayFolder(t, perClient, logLines("192.0.2.1"))
	for name, text := range map[string]string{
		"nginx.json":   `{"time":"2026-01-02T03:04:05Z","addr":"192.0.2.1","request":"GET / HTTP/1.1","status":200}` + "\n",
		"pino.json":    "\n" + `{"level":30,"time":1790000000123,"req":{"method":"GET","url":"/"},"msg":"incoming request"}` + "\n",
		"docker.json":  `{"log":"192.0.2.1 - - [02/Jan/2026:03:04:05 +0000] \"GET / HTTP/1.1\" 200 10\n","stream":"stdout","time":"2026-01-02T03:04:05.3Z"}` + "\n",
		"messages.log": `{"level":"info","ts":1790000000,"msg":"serving initial configuration"}` + "\n",
		"hostile.json": `{"log":"` + "\x1b]0;owned\a\u202e" + strings.Repeat("é", 500) + `"}` + "\n",
		"packed.xz":    "\xfd7zXZ\x00\x00",
		"fresh.log":    "",
		"blank.log":    "\n \n",
	} {
		assert.Must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	const none = "no request could be read from "
	const format = ": no line is a request; the first is "
	for _, test := range []struct {
		files  string
		stdout string
		stderr []string // texts of the error; none for no error
	}{
		{"nginx.json", "  nginx.json:1: JSON of an unknown program; name its fields with --fields (1 line): keys time, addr, request, status\n", []string{none + "nginx.json" + format + `{"time":"2026-`}},
		{"pino.json", "  pino.json:2: JSON of an unknown program; name its fields with --fields (1 line): keys level, time, req, msg\n", []string{none + "pino.json" + format + `{"level":30`}},
		{"messages.log", "1 of 1 line is no request, such as\n  messages.log:1: a message of Caddy (1 line): {", []string{none + "messages.log" + format + `{"level":"info"`}},
		{"hostile.json", "no requests\n", []string{format + `{"log":"\x1b]0;owned\x07\u202e`, "é…\n"}},
		{"packed.xz access.log", "1 request of 1 client", []string{none + "packed.xz: a file of xz"}},
		{"docker.json access.log", "2 requests of 1 client", nil},
		{"nginx.json access.log pino.json", "1 request of 1 client", []string{none + "nginx.json: ", "; from pino.json: "}},
		{"nginx.json pino.json messages.log hostile.json packed.xz", "no requests\n", []string{none + "nginx.json: ", "; from messages.log: ", "; from 2 more files"}},
		{"fresh.log blank.log", "no requests\n", nil},
		{"fresh.log access.log", "1 request of 1 client", nil},
	} {
		t.Run(test.files, func(t *testing.T) {
			page := strings.ReplaceAll(test.files, " ", "_") + ".html"
			e := replaysIn(t, folder, nil, append([]string{"--report", page}, strings.Fields(test.files)...)...)
			assert.ErrorIf(t, e.Code != min(len(test.stderr), 1) || !strings.Contains(e.Stdout, test.stdout), "got %v; want a word of %q", e, test.stdout)
			for _, want := range test.stderr {
				assert.ErrorIf(t, !strings.Contains(e.Stderr, want), "no word of %q in %q", want, e.Stderr)
			}
			assert.ErrorIf(t, strings.ContainsAny(e.Stderr+e.Stdout, "\x1b\a\u202e") || len(e.Stderr) > 1500, "not safe to show: %q", e.Stderr)
			_, err := os.Stat(filepath.Join(folder, page))
			assert.ErrorIf(t, (err == nil) != (e.Code == 0 || strings.HasPrefix(test.stdout, "1 request")), "a report: %v", err)
		})
	}
	e := replaysIn(t, folder, nil, "--json", "nginx.json", "access.log")
	e.Want(t, 1, `"requests": 1`, `"error": "no line is a request`)
}

// TestReplay_pipe writes a report to a pipe.
func TestReplay_pipe(t *testing.T) {
	t.Parallel()
	e := replays(t, perClient, logLines("192.0.2.1"), "--report", "/dev/stdout")
	assert.ErrorIf(t, e.Code != 0 || !strings.HasPrefix(e.Stdout, "<!DOCTYPE html>") || !strings.Contains(e.Stdout, "1 request of 1 client"), "got %v", e)
}

func TestReplay_fullDisk(t *testing.T) {
	t.Parallel()
	folder := replayFolder(t, perClient, logLines("192.0.2.1"))
	for _, args := range [][]string{{"access.log"}, {"--json", "access.log"}} {
		wantFullDisk(t, folder, append([]string{"replay", "--config", "Caddyfile"}, args...)...)
	}
}

func TestReplay_keys(t *testing.T) {
	t.Parallel()
	log := logLines(slices.Repeat([]string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}, 4)...)
	for worst, keys := range map[string]int{"0": 0, "2": 2, "9": 3} {
		e := replays(t, perClient, log, "--worst", worst, "--json")
		assert.ErrorIf(t, e.Code != 0 || strings.Count(e.Stdout, `"first_denied"`) != keys, "--worst %s: got %v; want %d keys", worst, e, keys)
	}
}

// TestReplay_host replays a log in Common Log Format, which has no host, through sites with host names.
func TestReplay_host(t *testing.T) {
	t.Parallel()
	const sites = "http://one.test {\n\tredis_ratelimit {client_ip} 1 1h {\n\t\tname one\n\t}\n}\nhttp://two.test {\n\tredis_ratelimit {client_ip} 1 1h {\n\t\tname two\n\t}\n}\n"
	one, _, _ := strings.Cut(sites, "http://two.test")
	log := logLines("192.0.2.1", "192.0.2.1")
	for _, test := range []struct {
		name, caddyfile string
		args            []string
		says            string
	}{
		{"one host", one, nil, "one.test"},
		{"several hosts", sites, nil, "--host"},
		{"named", sites, []string{"--host", "two.test"}, "1 requests denied"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := replays(t, test.caddyfile, log, test.args...)
			assert.ErrorIf(t, e.Code != 0 || !strings.Contains(strings.ReplaceAll(e.Stdout, "1 request denied", "1 requests denied"), test.says), "no word of %q in %v", test.says, e)
		})
	}
}
