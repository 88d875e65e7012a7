package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestReader_real_log(t *testing.T) {
	plain := assert.NoError(os.ReadFile(nasaLog))(t)
	half := len(plain) / 2
	half += strings.IndexByte(string(plain[half:]), '\n') + 1
	for _, tt := range []struct {
		name    string
		content []byte
		packing string
	}{
		{"plain", plain, "plain"},
		{"gzip", gzipped(t, string(plain)), "gzip"},
		{"zstd", zstandard(t, string(plain)), "zstd"},
		{"gzip in two parts", append(gzipped(t, string(plain[:half])), gzipped(t, string(plain[half:]))...), "gzip"},
		{"zstd in two parts", append(zstandard(t, string(plain[:half])), zstandard(t, string(plain[half:]))...), "zstd"},
		{"with a byte order mark", append([]byte("\xef\xbb\xbf"), plain...), "plain"},
		{"with the line ends of Windows", []byte(strings.ReplaceAll(string(plain), "\n", "\r\n")), "plain"},
		{"without the last line end", []byte(strings.TrimSuffix(string(plain), "\n")), "plain"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entries, s := readAll(t, ReaderOptions{Files: []string{writeFile(t, "log", tt.content)}, AtSecondStart: true})
			if len(entries) != 400 || s.Files[0].Formats[commonName] != 400 || s.Files[0].Packing != tt.packing || len(s.Warnings()) > 0 {
				t.Fatalf("%d entries of %+v: %v", len(entries), s.Files, s.Warnings())
			}
			assert.ErrorIf(t, !slices.IsSortedFunc(entries, func(a, b Entry) int { return int(a.line - b.line) }), "requests of one second change places")
			first := entries[0]
			if first.Client != "pppa006.compuserve.com" || first.URI != "/images/launch-logo.gif" || first.Size != 1713 ||
				!time.UnixMicro(first.Time).Equal(time.Date(1995, 8, 1, 6, 0, 0, 0, time.UTC)) || first.line != 1 {
				t.Errorf("first entry %+v", first)
			}
		})
	}
}

func TestReader_Window(t *testing.T) {
	for _, tt := range []struct {
		name    string
		seconds []int
		window  int
		want    string
		late    int64
		by      time.Duration
	}{
		{"in order", []int{1, 2, 3}, 2, "1 2 3", 0, 0},
		{"swapped", []int{2, 1, 4, 3}, 2, "1 2 3 4", 0, 0},
		{"one too early", []int{9, 1, 2, 3, 4}, 2, "1 2 3 4 9", 0, 0},
		{"a late one", []int{1, 2, 3, 4, 0, 5}, 2, "1 2 3 0@3 4 5", 1, 3 * time.Second},
		{"the clock was put back", []int{100, 101, 102, 50, 51, 103}, 2, "100 101 50@101 51@101 102 103", 2, 51 * time.Second},
		{"backwards, all in the window", []int{5, 4, 3, 2, 1}, 8, "1 2 3 4 5", 0, 0},
		{"a window of one", []int{2, 1}, 1, "2 1@2", 1, 750 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log strings.Builder
			for _, s := range tt.seconds {
				log.WriteString(clfLine(s, "a"))
			}
			entries, s := readAll(t, ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(log.String()), Window: tt.window})
			got := order(entries)
			assert.ErrorIf(t, got != tt.want || s.Late != tt.late || s.LatestBy != tt.by || len(s.Warnings()) > 0, "got %s, %+v; want %s", got, s, tt.want)
		})
	}
}

func TestReader_headers(t *testing.T) {
	line := func(n int, more string) string {
		return strings.TrimSuffix(clfLine(n, "a"), "\n") + more + "\n"
	}
	log := line(0, "") + line(1, ` "-" "one"`) + line(2, ` "there" "two"`) + line(3, ` "-" "-"`) +
		caddyLine(`"2025-06-15T15:06:50Z"`, "b") + line(20, ` "-" "\"<script>\x1b[31m"`)
	entries, _ := readText(t, log)
	var got []string
	for i := range entries {
		got = append(got, fmt.Sprintf("%d %q", len(entries[i].Header), entries[i].Header.Get("User-Agent")))
	}
	want := `0 "", 1 "one", 2 "two", 0 "", 4 "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36", 1 "\"<script>\x1b[31m"`
	all := strings.Join(got, ", ")
	assert.ErrorIf(t, all != want, "got  %s\nwant %s", all, want)
}

func TestOpen_errors(t *testing.T) {
	for name, o := range map[string]ReaderOptions{
		"missing":       {Files: []string{"testdata/no such file"}},
		"directory":     {Files: []string{"testdata"}},
		"no stdin":      {Files: []string{"-"}},
		"stdin, twice":  {Files: []string{"-", "-"}, Stdin: strings.NewReader("")},
		"one of two is": {Files: []string{nasaLog, "testdata/\x1b"}},
	} {
		r, err := Open(o)
		assert.ErrorIf(t, err == nil, "%s: opened %v", name, r)
	}
}

func TestReader_Close(t *testing.T) {
	r := assert.NoError(Open(ReaderOptions{Files: []string{nasaLog}}))(t)
	for _, want := range []error{nil, io.EOF} {
		if _, err := r.Next(); err != want { //nolint:errorlint // io.EOF itself is the contract
			t.Fatalf("got %v, want %v", err, want)
		}
		assert.Must(t, r.Close())
	}
}

func TestReader_several_files(t *testing.T) {
	write := func(name string, seconds ...int) string {
		var log strings.Builder
		for _, s := range seconds {
			log.WriteString(clfLine(s, "a"))
		}
		return writeFile(t, name, []byte(log.String()))
	}
	for _, tt := range []struct {
		name  string
		files []string
		stdin string
		want  string
	}{
		{"side by side", []string{write("a", 1, 3, 5), write("b", 2, 4, 6)}, "", "1 2 3 4 5 6"},
		{"one after the other", []string{write("a", 1, 2), write("b", 3, 4), write("c", 5)}, "", "1 2 3 4 5"},
		{"named the wrong way round", []string{write("b", 3, 4), write("a", 1, 2)}, "", "1 2 3 4"},
		{"the beginning is not its first line", []string{write("a", 1, 2, 3), write("b", 9, 2, 1)}, "", "1 1 2 2 3 9"},
		{"with stdin", []string{write("a", 1, 3), "-"}, clfLine(2, "a") + clfLine(4, "a"), "1 2 3 4"},
		{"with an empty one", []string{write("a"), write("b", 1)}, "", "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entries, s := readAll(t, ReaderOptions{Files: tt.files, Stdin: strings.NewReader(tt.stdin)})
			got := order(entries)
			assert.ErrorIf(t, got != tt.want || s.Late != 0, "got %s, %d late; want %s", got, s.Late, tt.want)
		})
	}
}

func TestReader_open_files(t *testing.T) {
	var files []string
	for day := range 20 {
		files = append(files, writeFile(t, fmt.Sprint(day), []byte(clfLine(10*day, "a")+clfLine(10*day+9, "a"))))
	}
	r := assert.NoError(Open(ReaderOptions{Files: files}))(t)
	for {
		if _, err := r.Next(); err != nil {
			break
		}
		assert.FatalIf(t, len(r.open) > 2, "%d files are open", len(r.open))
	}
	s := r.Summary()
	assert.ErrorIf(t, s.Entries != 40, "%d entries", s.Entries)
}

const responseLine = `{"ts":1750000000,"request":{"client_ip":"1.2.3.4"},"size":1,"status":200,"resp_headers":` +
	`{"X-Login":["failed"],"x-cost":["5","\u0031\"0"],"Set-Cookie":["REDACTED"],"Server":"Caddy","Vary":[]}}` + "\n"

func TestEntry_ResponseHeader(t *testing.T) {
	log := responseLine + clfLine(1, "a") + strings.Replace(caddyLine(`"2025-06-15T15:06:42Z"`, "a"), "resp_headers", "other", 1)
	for asked, first := range map[bool]string{true: `map[Server:[Caddy] Set-Cookie:[REDACTED] X-Cost:[5 1"0] X-Login:[failed]]`, false: "map[]"} {
		entries, _ := readAll(t, ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(log), Responses: asked})
		assert.FatalIf(t, len(entries) != 3, "%d entries", len(entries))
		for i, want := range []string{first, "map[]", "map[]"} {
			got := entries[i].ResponseHeader()
			assert.ErrorIf(t, got == nil || fmt.Sprint(got) != want, "entry %d: got %v, want %s", i, got, want)
		}
	}
}

// nasaLog is an excerpt of a real log.
const nasaLog = "testdata/nasa-1995-08-01.log"

// second is the time of clfLine(n, …) for n = 0, in microseconds.
const second = int64(1_750_000_000_000_000)

// clfLine is a request at so many seconds after a fixed time.
func clfLine(seconds int, client string) string {
	return fmt.Sprintf("%s - - [%s] \"GET /%d HTTP/1.1\" 200 5\n", client, clfTime(seconds), seconds)
}

func clfTime(seconds int) string {
	return time.Unix(1_750_000_000+int64(seconds), 0).UTC().Format("02/Jan/2006:15:04:05 -0700")
}

func caddyLine(ts, client string) string {
	return fmt.Sprintf(`{"level":"info","ts":%s,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"10.0.0.1",`+
		`"remote_port":"56842","client_ip":%q,"proto":"HTTP/1.1","method":"GET","host":"example.com","uri":"/a?b=1","headers":{`+
		`"Authorization":["REDACTED"],"X-Api-Key":["k1"],"User-Agent":["Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"],"Accept":["*/*","b"]},`+
		`"tls":{"resumed":false,"version":772,"cipher_suite":4865,"proto":"h2","server_name":"example.com"}},"bytes_read":0,"user_id":"",`+
		`"duration":0.5,"size":2,"status":200,"resp_headers":{"Server":["Caddy"],"Content-Type":["text/plain; charset=utf-8"]}}`+"\n", ts, client)
}

func writeFile(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	assert.Must(t, os.WriteFile(path, content, 0o600))
	return path
}

func gzipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	assert.NoError(io.WriteString(w, text))(t)
	assert.Must(t, w.Close())
	return b.Bytes()
}

func zstandard(t testing.TB, text string) []byte {
	t.Helper()
	w := assert.NoError(zstd.NewWriter(nil))(t)
	return w.EncodeAll([]byte(text), nil)
}

// readAll returns copies of all entries, with headers of their own.
func readAll(t testing.TB, o ReaderOptions) ([]Entry, Summary) {
	t.Helper()
	r := assert.NoError(Open(o))(t)
	t.Cleanup(func() { _ = r.Close() })
	var all []Entry
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, r.Summary()
		}
		assert.Must(t, err)
		kept := *e
		kept.Header = e.Header.Clone()
		all = append(all, kept)
	}
}

func readText(t testing.TB, text string) ([]Entry, Summary) {
	t.Helper()
	return readAll(t, ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(text), AtSecondStart: true})
}

// paths are the URIs in the order in which they came, with their seconds where that is another.
func order(entries []Entry) string {
	var all []string
	for i := range entries {
		uri := strings.TrimPrefix(entries[i].URI, "/")
		if at := fmt.Sprint((entries[i].Time - second) / 1e6); at != uri {
			uri += "@" + at
		}
		all = append(all, uri)
	}
	return strings.Join(all, " ")
}
