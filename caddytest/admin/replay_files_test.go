package admin

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// contents returns the files of a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(folder)
	redistest.Must(t, err)
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		redistest.Must(t, err)
		files[entry.Name()] = string(text)
	}
	return files
}

func TestReplay_outputIsInput(t *testing.T) {
	t.Parallel()
	log := logLines("192.0.2.1")
	for name, args := range map[string][]string{
		"the log":                    {"--decisions", "access.log", "access.log"},
		"the log by another path":    {"--decisions", "./access.log", "access.log"},
		"the log by another name":    {"--report", "link", "access.log"},
		"the configuration":          {"--report", "Caddyfile", "access.log"},
		"one file twice":             {"--report", "new", "--decisions", "./new", "access.log"},
		"into a folder that is none": {"--report", "nowhere/report.html", "--decisions", "new", "access.log"},
		"a folder":                   {"--report", ".", "access.log"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := replayFolder(t, perClient, log)
			redistest.Must(t, os.Link(filepath.Join(folder, "access.log"), filepath.Join(folder, "link")))
			before := contents(t, folder)
			e := replaysIn(t, folder, nil, args...)
			redistest.ErrorIf(t, e.Code != 1 || e.Stdout != "" || e.Stderr == "", "got %v", e)
			after := contents(t, folder)
			redistest.ErrorIf(t, len(after) != len(before) || after["access.log"] != before["access.log"] || after["Caddyfile"] != before["Caddyfile"], "before %q, after %q", before, after)
		})
	}
}

func TestReplay_olderFiles(t *testing.T) {
	t.Parallel()
	folder := replayFolder(t, perClient, logLines("192.0.2.1"))
	report := filepath.Join(folder, "report.html")
	if err := os.WriteFile(report, []byte("older"), 0o640); err != nil { //nolint:gosec // the mode must stay
		t.Fatal(err)
	}
	args := []string{"--report", "report.html", "--decisions", "decisions.csv", "-"}
	replaysIn(t, folder, []byte("no log\n"), args...).Want(t, 1)
	files := contents(t, folder)
	redistest.ErrorIf(t, len(files) != 3 || files["report.html"] != "older", "after a log that cannot be read: %q", files)
	replaysIn(t, folder, logLines("192.0.2.1"), args...).Want(t, 0)
	files = contents(t, folder)
	rows, err := csv.NewReader(strings.NewReader(files["decisions.csv"])).ReadAll()
	redistest.ErrorIf(t, len(files) != 4 || !strings.Contains(files["report.html"], "</html>") || len(rows) != 2 || err != nil, "after a log: %q, %v", files, err)
	for name, mode := range map[string]fs.FileMode{"report.html": 0o640, "decisions.csv": 0o600} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestReplay_pipe writes decisions to a pipe.
func TestReplay_pipe(t *testing.T) {
	t.Parallel()
	e := replays(t, perClient, logLines("192.0.2.1"), "--decisions", "/dev/stdout", "--report", "/dev/null")
	redistest.ErrorIf(t, e.Code != 0 || !strings.HasPrefix(e.Stdout, "line,time,") || !strings.Contains(e.Stdout, "1 requests") && !strings.Contains(e.Stdout, "1 request "), "got %v", e)
}

func TestReplay_fullDisk(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = full.Close() }() // nothing was written
	for _, args := range [][]string{{"access.log"}, {"--json", "access.log"}} {
		command := exec.Command(caddytest.Binary(t), append([]string{"redis-ratelimit", "replay", "--config", "Caddyfile"}, args...)...)
		var complaints bytes.Buffer
		command.Dir, command.Env, command.Stdout, command.Stderr = replayFolder(t, perClient, logLines("192.0.2.1")), caddytest.Environment(t), full, &complaints
		if err := command.Run(); err == nil || !strings.Contains(complaints.String(), "no space left") {
			t.Errorf("%v: %v: %s", args, err, &complaints)
		}
	}
}

func TestReplay_keys(t *testing.T) {
	t.Parallel()
	log := logLines(slices.Repeat([]string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}, 4)...)
	for worst, keys := range map[string]int{"0": 0, "2": 2, "9": 3} {
		e := replays(t, perClient, log, "--worst", worst, "--json")
		redistest.ErrorIf(t, e.Code != 0 || strings.Count(e.Stdout, `"first_denied"`) != keys, "--worst %s: got %v; want %d keys", worst, e, keys)
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
			redistest.ErrorIf(t, e.Code != 0 || !strings.Contains(strings.ReplaceAll(e.Stdout, "1 request denied", "1 requests denied"), test.says), "no word of %q in %v", test.says, e)
		})
	}
}

func TestReplay_imports(t *testing.T) {
	t.Parallel()
	const snippets = "(limits) {\n" + perClient + "\n}\n(unused) {\nrespond unused\n}\n"
	for name, args := range map[string][]string{
		"decisions over a snippet file":     {"--decisions", "snippets", "access.log"},
		"report over a snippet file":        {"--report", "./snippets", "access.log"},
		"report over a file without tokens": {"--report", "sites/empty", "access.log"},
		"decisions over a hard link":        {"--decisions", "hard", "access.log"},
		"decisions over a symbolic link":    {"--decisions", "soft", "access.log"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := replayFolder(t, "import limits", logLines("192.0.2.1"))
			path := func(name string) string { return filepath.Join(folder, name) }
			caddyfile, err := os.ReadFile(path("Caddyfile"))
			redistest.Must(t, err)
			for _, err := range []error{
				os.WriteFile(path("snippets"), []byte(snippets), 0o600),
				os.WriteFile(path("Caddyfile"), []byte("import snippets\nimport sites/*\n"+string(caddyfile)), 0o600),
				os.Mkdir(path("sites"), 0o700),
				os.WriteFile(path("sites/empty"), []byte("# nothing yet\n"), 0o600),
				os.Link(path("snippets"), path("hard")),
				os.Symlink("snippets", path("soft")),
			} {
				redistest.Must(t, err)
			}
			e := replaysIn(t, folder, nil, args...)
			redistest.ErrorIf(t, e.Code != 1 || e.Stdout != "" || !strings.Contains(e.Stderr, "is read"), "got %v", e)
			after, err := os.ReadFile(path("snippets"))
			empty, emptyErr := os.ReadFile(path("sites/empty"))
			redistest.ErrorIf(t, err != nil || emptyErr != nil || string(after) != snippets || string(empty) != "# nothing yet\n", "got %q and %q, %v, %v", after, empty, err, emptyErr)
		})
	}
}

// TestReplay_calendar plays a log through days of Santiago: the clock is the log's, and the day without a
// first hour begins at one o'clock.
func TestReplay_calendar(t *testing.T) {
	t.Parallel()
	const caddyfile = ":80 {\n\tredis_ratelimit {\n\t\tlimit 1\n\t\twindow day America/Santiago\n\t}\n\treverse_proxy 127.0.0.1:1\n}\n"
	var log bytes.Buffer
	for _, at := range []string{"2026-09-06T03:59:57Z", "2026-09-06T03:59:59Z", "2026-09-06T04:00:00Z", "2026-09-07T02:59:59Z", "2026-09-07T03:00:00Z"} {
		instant, err := time.Parse(time.RFC3339, at)
		redistest.Must(t, err)
		fmt.Fprintf(&log, "192.0.2.1 - - [%s] \"GET / HTTP/1.1\" 200 10\n", instant.Format("02/Jan/2006:15:04:05 -0700"))
	}
	result := playedJSON(t, caddyfile, log.Bytes())
	redistest.ErrorIf(t, result.Requests != 5 || result.Denied != 2, "%d of %d denied, want 2 of 5", result.Denied, result.Requests)
	replays(t, caddyfile, log.Bytes(), "--suggest").Want(t, 0, "1 per day (America/Santiago)", "other limits per day (America/Santiago)")
}
