package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestReader_bad_files(t *testing.T) {
	plain := assert.NoError(os.ReadFile(nasaLog))(t)
	noise := make([]byte, 4<<20)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	copy(noise, "\x7fELF")
	cutGzip, cutZstd := gzipped(t, string(plain)), zstandard(t, string(plain))
	for _, tt := range []struct {
		name    string
		content []byte
		least   int64 // entries
		err     string
	}{
		{"empty", nil, 0, ""},
		{"blank", []byte("\n \n\t\n"), 0, ""},
		{"binary", noise, 0, ""},
		{"one long line without end", make([]byte, 8<<20), 0, ""},
		{"gzip cut off", cutGzip[:len(cutGzip)*3/4], 100, "unexpected EOF"},
		{"gzip cut off in its head", cutGzip[:5], 0, "unexpected EOF"},
		{"gzip with rubbish behind", append(bytes.Clone(cutGzip), noise[:100]...), 400, "gzip: invalid header"},
		{"xz", []byte("\xfd7zXZ\x00\x00"), 0, "a file of xz: unpack it, or convert it to UTF-8"},
		{"bzip2", []byte("BZh91AY&SY"), 0, "a file of bzip2: unpack it, or convert it to UTF-8"},
		{"zip", []byte("PK\x03\x04\x14\x00"), 0, "a file of zip: unpack it, or convert it to UTF-8"},
		{"UTF-16", []byte("\xff\xfe1\x00\n\x00"), 0, "a file of UTF-16: unpack it, or convert it to UTF-8"},
		{"zstd cut off", cutZstd[:len(cutZstd)*3/4], 0, "unexpected EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, o := range []ReaderOptions{
				{Files: []string{writeFile(t, "log", tt.content)}},
				{Files: []string{"-"}, Stdin: bytes.NewReader(tt.content)},
			} {
				entries, s := readAll(t, o)
				assert.ErrorIf(t, int64(len(entries)) < tt.least || s.Entries != int64(len(entries)), "%d entries", len(entries))
				if err := s.Files[0].Err; (err == nil) != (tt.err == "") || err != nil && !strings.HasSuffix(err.Error(), tt.err) {
					t.Errorf("error %v, want %s", err, tt.err)
				}
				total := s.Total()
				assert.ErrorIf(t, total.Lines != total.Malformed+s.Entries+total.Other, "lines do not add up: %+v", total)
				assert.ErrorIf(t, len(s.Warnings()) > 0, "reported twice: %q", s.Warnings())
			}
		})
	}
}

// failing is a disk that fails after some text.
type failing struct{ text io.Reader }

var errDisk = errors.New("disk failed")

func (f failing) Read(p []byte) (int, error) {
	n, err := f.text.Read(p)
	if errors.Is(err, io.EOF) {
		err = errDisk
	}
	return n, err
}

func TestReader_read_error(t *testing.T) {
	log := clfLine(1, "a") + clfLine(2, "a") + clfLine(3, "a")[:50]
	entries, s := readAll(t, ReaderOptions{Files: []string{"-"}, Stdin: failing{strings.NewReader(log)}})
	assert.ErrorIf(t, order(entries) != "1 2" || !errors.Is(s.Files[0].Err, errDisk) || len(s.Warnings()) > 0, "%s, %v", order(entries), s)
}

func TestReader_long_lines(t *testing.T) {
	fits := fmt.Sprintf("a - - [%s] \"GET /%%s HTTP/1.1\" 200 5\n", clfTime(2))
	room := maxLine - len(fits) + len("%s") + len("\n")
	log := clfLine(1, "a") + fmt.Sprintf(fits, strings.Repeat("x", room)) + fmt.Sprintf(fits, strings.Repeat("x", room+1)) +
		strings.Repeat("y", 3<<20) + "\n" + clfLine(4, "a")
	entries, s := readText(t, log)
	assert.FatalIf(t, len(entries) != 3 || len(entries[1].URI) != room+1 || entries[2].line != 5, "%d entries, %v", len(entries), s.Skipped)
	assert.ErrorIf(t, s.Total().Malformed != 2 || s.Skipped[0].Lines != 2 || !strings.Contains(s.Skipped[0].Reason, "1 MiB"), "%+v", s.Total())
}

// TestReader_skipped_lines counts lines that are no requests by kind, and keeps the first of each.
func TestReader_skipped_lines(t *testing.T) {
	const owned = "\x1b]0;owned\a\u202e<script>"
	var log strings.Builder
	for i := range 9 {
		fmt.Fprintf(&log, "%s%s%d%s\n", clfLine(i, "a"), owned, i, strings.Repeat("é", 500))
	}
	log.WriteString("a b [no time at all........... +0000] \n" + clfLine(1, "a")[:50] + "\n\n" + `{"level":30,"` + owned + `":1,"msg":2}` + "\n" +
		`{"level":"info","ts":1750000000.5,"msg":"serving"}` + "\n")
	entries, s := readText(t, log.String())
	total := s.Total()
	assert.FatalIf(t, len(entries) != 9 || total.Malformed != 12 || total.Other != 2 || total.Lines != 23, "%d entries, %+v", len(entries), total)
	var got []string
	for _, m := range s.Skipped {
		got = append(got, fmt.Sprintf("%s %d %v %s", m.Where, m.Lines, m.Other, m.Reason))
		assert.ErrorIf(t, utf8.RuneCountInString(m.Text) > shownText || strings.ContainsAny(m.Text, "\x1b\a"), "%q", m.Text)
	}
	want := []string{
		"-:2 10 false " + noBracketTime.kind, "-:20 1 false " + noStatus.kind, "-:22 1 false " + foreignJSON.kind, "-:23 1 true " + caddyMessage.kind,
	}
	assert.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"), "the kinds")
	assert.ErrorIf(t, !strings.HasPrefix(s.Skipped[0].Text, `\x1b]0;owned\x07\u202e<script>0`), "%+v", s.Skipped[0])
	assert.ErrorIf(t, !strings.HasPrefix(s.Skipped[2].Text, `keys level, \x1b]0;owned`), "%+v", s.Skipped[2])
	warnings := s.Warnings()
	assert.ErrorIf(t, len(warnings) > 0, "reported twice: %q", warnings)
}

func TestSummary_Warnings_clients(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		used       []string // by keys
		want       string
	}{
		{"redacted", alone("REDACTED"), nil, "client_ip is redacted in 150 requests"},
		{"missing", alone(""), nil, "150 requests without a client"},
		{"no client_ip", strings.ReplaceAll(caddyLine("1750000000.5", ""), `"client_ip":"",`, ""), nil, "150 requests without client_ip"},
		{"a redacted header in use", caddyLine("1750000000.5", "a"), []string{"x-api-key", "authorization"}, "Authorization is redacted in 150 requests"},
		{"no redacted header in use", caddyLine("1750000000.5", "a"), nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, s := readText(t, strings.Repeat(tt.line, 150))
			got := s.Warnings(tt.used...)
			assert.ErrorIf(t, len(got) != min(1, len(tt.want)) || !strings.Contains(strings.Join(got, ""), tt.want), "warnings are %q", got)
		})
	}
}

// alone is a line of a client without a peer.
func alone(client string) string {
	return strings.ReplaceAll(caddyLine("1750000000.5", client), `"remote_ip":"10.0.0.1",`, "")
}

func TestReader_memory(t *testing.T) {
	line := strings.Replace(clfLine(1, "a"), "GET /1", "GET /"+strings.Repeat("x", 500_000), 1)
	log := make([]io.Reader, 800) // of one text
	for i := range log {
		log[i] = strings.NewReader(line)
	}
	r := assert.NoError(Open(ReaderOptions{Files: []string{"-"}, Stdin: io.MultiReader(log...)}))(t)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	bytes := r.open[0].window.bytes
	assert.ErrorIf(t, bytes > maxWindowBytes+maxLine || m.HeapAlloc > 3*maxWindowBytes, "%d bytes in the window, %d in all", bytes, m.HeapAlloc)
}

// endedLine is a request of so many seconds that ended so many seconds after a fixed time.
func endedLine(ended, took float64) string {
	return fmt.Sprintf(`{"ts":%.3f,"request":{"client_ip":"192.0.2.1","uri":"/%g"},"duration":%.3f,"size":1,"status":101}`+"\n",
		float64(second)/1e6+ended, ended, took)
}

func TestReader_LongRequests(t *testing.T) {
	log := endedLine(1, 0.5) + endedLine(2, 0.5) + endedLine(3, 0.5) + endedLine(4, 3.75) + endedLine(5, 0.5) + endedLine(6, 5.75)
	file := ReaderOptions{Files: []string{writeFile(t, "log", []byte(log))}, Window: 2, LongRequests: true}
	packed := file
	packed.Files = []string{writeFile(t, "log.gz", gzipped(t, log))}
	for _, tt := range []struct {
		name    string
		options ReaderOptions
		want    string
		late    int64
	}{
		{"a file", file, "4@0.25 6@0.25 1@0.5 2@1.5 3@2.5 5@4.5", 0},
		{"packed", packed, "4@0.25 6@0.25 1@0.5 2@1.5 3@2.5 5@4.5", 0},
		{"not asked for", ReaderOptions{Files: file.Files, Window: 2}, "1@0.5 2@1.5 4@1.5 3@2.5 6@2.5 5@4.5", 2},
		{"a stream", ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(log), Window: 2, LongRequests: true}, "1@0.5 2@1.5 4@1.5 3@2.5 6@2.5 5@4.5", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entries, s := readAll(t, tt.options)
			var got []string
			for _, e := range entries {
				ended := float64(e.Ends-second) / 1e6
				assert.ErrorIf(t, e.URI != fmt.Sprintf("/%g", ended), "%s ended after %g s", e.URI, ended)
				got = append(got, fmt.Sprintf("%g@%g", ended, float64(e.Time-second)/1e6))
			}
			if strings.Join(got, " ") != tt.want || s.Late != tt.late || s.Entries != 6 || s.Files[0].Lines != 6 {
				t.Errorf("got %s, %+v; want %s", strings.Join(got, " "), s, tt.want)
			}
		})
	}
}

// Requests of all lengths, in several files, come in the order of their starts however small the window is, as
// long as those that are out of order fit it.
func TestReader_LongRequests_random(t *testing.T) {
	random := rand.New(rand.NewPCG(18, 19))
	for range assert.Rounds(20, 600) {
		type request struct{ ends, took float64 }
		all := make([]request, 1+random.IntN(300))
		long := 0
		for i := range all {
			all[i] = request{ends: float64(random.IntN(3600)), took: random.Float64()}
			if long < 20 && random.IntN(10) == 0 {
				all[i].took *= 4000
				long++
			}
		}
		slices.SortFunc(all, func(a, b request) int { return int(a.ends - b.ends) })
		texts, files := make([]string, 1+random.IntN(3)), []string{}
		for i, r := range all {
			texts[i*len(texts)/len(all)] += endedLine(r.ends, r.took)
		}
		for _, text := range texts {
			files = append(files, writeFile(t, "log", []byte(text)))
		}
		// short requests of one second stand out of order too, by up to a second
		entries, s := readAll(t, ReaderOptions{Files: files, Window: 40 + len(all)/20, LongRequests: true})
		assert.FatalIf(t, s.Late > 0 || len(entries) != len(all), "%d late, %d of %d requests", s.Late, len(entries), len(all))
		for _, e := range entries {
			if took := float64(e.Ends-e.Time) / 1e6; !slices.ContainsFunc(all, func(r request) bool {
				return fmt.Sprintf("/%g", r.ends) == e.URI && r.took-took < 0.002 && took-r.took < 0.002
			}) {
				t.Fatalf("%+v took %g s", e, took)
			}
		}
	}
}
