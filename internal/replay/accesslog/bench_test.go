package accesslog

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// BenchmarkRead reads a log of 200,000 lines from memory, one line an iteration.
func BenchmarkRead(b *testing.B) {
	var clf, combined, caddy strings.Builder
	for i := range 200_000 {
		client := fmt.Sprintf("10.1.%d.%d", i%50, i%200)
		clf.WriteString(clfLine(i/100, client))
		combined.WriteString(strings.TrimSuffix(clfLine(i/100, client), "\n"))
		combined.WriteString(` "https://example.com/a/b/c?d=e" "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_1) AppleWebKit/537.36 Chrome/32.0.1700.77 Safari/537.36"` + "\n")
		caddy.WriteString(caddyLine(fmt.Sprintf("%d.%06d", 1750000000+i/100, i*7919%1_000_000), client))
	}
	for name, text := range map[string]string{"clf": clf.String(), "combined": combined.String(), "json": caddy.String(), "clf.gz": string(gzipped(b, clf.String()))} {
		b.Run("format="+name, func(b *testing.B) { benchmarkRead(b, text) })
	}
}

func benchmarkRead(b *testing.B, text string) {
	b.ReportAllocs()
	var r *Reader
	for range b.N {
		if r == nil {
			var err error
			o := Options{Files: []string{"-"}, Stdin: strings.NewReader(text)}
			if r, err = Open(o); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			if s := r.Summary(); s.Total().Malformed > 0 {
				b.Fatal(s.Malformed)
			}
			r = nil
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
