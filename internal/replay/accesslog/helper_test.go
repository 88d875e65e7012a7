package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// nasaLog is an excerpt of a real log.
const nasaLog = "testdata/nasa-1995-08-01.log"

// second is the time of clfLine(n, …) for n = 0, in microseconds.
const second = int64(1_750_000_000_000_000)

// clfLine is a request at so many seconds after a fixed time.
func clfLine(seconds int, client string) string {
	return fmt.Sprintf("%s - - [%s] \"GET /%d HTTP/1.1\" 200 5\n", client, clfTime(seconds), seconds)
}

func clfTime(seconds int) string {
	total := 15*3600 + 6*60 + 40 + seconds // 1750000000 is 2025-06-15 15:06:40 UTC
	return fmt.Sprintf("15/Jun/2025:%02d:%02d:%02d +0000", total/3600, total/60%60, total%60)
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
	redistest.Must(t, os.WriteFile(path, content, 0o600))
	return path
}

func gzipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	redistest.Must(t, w.Close())
	return b.Bytes()
}

func zstandard(t testing.TB, text string) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	redistest.Must(t, err)
	return w.EncodeAll([]byte(text), nil)
}

// readAll returns copies of all entries, with headers of their own.
func readAll(t testing.TB, o Options) ([]Entry, Summary) {
	t.Helper()
	r, err := Open(o)
	redistest.Must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	var all []Entry
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, r.Summary()
		}
		redistest.Must(t, err)
		kept := *e
		kept.Header = e.Header.Clone()
		all = append(all, kept)
	}
}

func readText(t testing.TB, text string) ([]Entry, Summary) {
	t.Helper()
	return readAll(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(text)})
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
