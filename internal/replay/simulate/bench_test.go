package simulate_test

import (
	"fmt"
	"io"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

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

// BenchmarkReplay plays a log of 100,000 clients through one keyed policy, one line for each iteration: with -benchtime
// 10000000x ten million lines. It reports the memory that was taken from the system.
func BenchmarkReplay(b *testing.B) {
	b.ReportAllocs()
	result := play(b, nasaSite("10 1m", "sliding_window_counter"), accesslog.ReaderOptions{Files: []string{"-"}, Stdin: &crowd{lines: b.N, clients: 100_000}})
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.ReportMetric(float64(memory.Sys)/1e6, "MB")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
	assert.FatalIf(b, result.Requests != int64(b.N), "%d requests", result.Requests)
}
