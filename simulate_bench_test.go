package redisratelimit

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// repeated is a log that is longer than memory should be: the real one, day after day.
type repeated struct {
	lines [][]byte
	left  int // lines
	at    int
	day   time.Time
	rest  []byte
}

func newRepeated(t testing.TB, lines int) *repeated {
	t.Helper()
	text, err := io.ReadAll(openNASA(t))
	redistest.Must(t, err)
	return &repeated{lines: bytes.SplitAfter(bytes.TrimSpace(text), []byte("\n")), left: lines, day: time.Date(1995, 8, 1, 0, 0, 0, 0, time.UTC)}
}

// Read implements [io.Reader].
func (r *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(r.rest) == 0 {
			if r.left == 0 {
				return n, io.EOF
			}
			if r.at == len(r.lines)-1 { // the last one has no end
				r.at, r.day = 0, r.day.AddDate(0, 0, 1)
			}
			r.rest = bytes.Replace(r.lines[r.at], []byte("01/Aug/1995"), r.day.AppendFormat(nil, "02/Jan/2006"), 1)
			r.at, r.left = r.at+1, r.left-1
		}
		copied := copy(p[n:], r.rest)
		n, r.rest = n+copied, r.rest[copied:]
	}
	return n, nil
}

// BenchmarkReplay plays a log of Common Log Format through one keyed policy. With -benchtime
// 10000000x it is ten million lines.
func BenchmarkReplay(b *testing.B) {
	b.ReportAllocs()
	b.ResetTimer()
	result := play(b, nasaSite("10 1m", "sliding_window_counter"), accesslog.Options{Files: []string{"-"}, Stdin: newRepeated(b, b.N)}, replay.Options{})
	redistest.FatalIf(b, result.Requests != int64(b.N), "%d requests", result.Requests)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

// crowd is a log of so many lines, of so many clients in turn, a thousand lines a second.
type crowd struct {
	lines, clients int
	at             int
	text, rest     []byte
}

// Read implements [io.Reader].
func (c *crowd) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(c.rest) == 0 {
			if c.at == c.lines {
				return n, io.EOF
			}
			client, when := c.at*7919%c.clients, time.Unix(1_790_000_000+int64(c.at/1000), 0).UTC()
			c.text = fmt.Appendf(c.text[:0], "10.%d.%d.%d - - [", client>>16, client>>8&255, client&255)
			c.text = append(when.AppendFormat(c.text, "02/Jan/2006:15:04:05 -0700"), `] "GET /page/`...)
			c.text = append(strconv.AppendInt(c.text, int64(c.at%5000), 10), " HTTP/1.1\" 200 512\n"...)
			c.rest, c.at = c.text, c.at+1
		}
		copied := copy(p[n:], c.rest)
		n, c.rest = n+copied, c.rest[copied:]
	}
	return n, nil
}

// BenchmarkReplay_memory plays a log of 100,000 clients, one line for each iteration: with -benchtime
// 10000000x ten million lines. It tells the memory that was taken from the system.
func BenchmarkReplay_memory(b *testing.B) {
	result := play(b, nasaSite("10 1m", "sliding_window_counter"), accesslog.Options{Files: []string{"-"}, Stdin: &crowd{lines: b.N, clients: 100_000}}, replay.Options{})
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.ReportMetric(float64(memory.Sys)/1e6, "MB")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
	redistest.FatalIf(b, result.Requests != int64(b.N), "%d requests", result.Requests)
}
