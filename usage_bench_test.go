//go:build unix

package redisratelimit

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// BenchmarkUsed compares the processor time of requests with that of requests whose usage is not counted, in short turns, so
// that both meet the same machine. It reports the mean of the faster half of the turns, which other programs have disturbed
// less, and by how many percent counting is dearer:
//
//	go test . -run '^$' -bench Used$ -benchtime 2000x
//
// One iteration is a turn of each. Package storepool has what counting takes by itself (BenchmarkUsage_Add).
func BenchmarkUsed(b *testing.B) {
	redis := `,"redis_ratelimit":{"redis":{"url":"redis://` + redistest.Start(b).Addr + `"},"timeout":"10s"}`
	const handler = `{"handler":"redis_ratelimit","policies":[{"name":"bench","limit":1000000000,"window":"1h","key":"{http.request.header.X-Key}"}]},`
	for _, bench := range []struct {
		name, app string
		each      int
	}{{"memory", "", 400}, {"redis", redis, 200}} {
		b.Run(bench.name, func(b *testing.B) {
			server := loadServer(b, bench.app, handler)
			counters := apps.newest().registered["bench"].Counters
			var on, off []float64
			for turn := range b.N {
				for _, counts := range []bool{turn%2 == 0, turn%2 != 0} {
					if took := cpuOf(b, server, counters, counts, bench.each); counts {
						on = append(on, took)
					} else {
						off = append(off, took)
					}
				}
			}
			with, without := fasterHalf(on), fasterHalf(off)
			b.ReportMetric(with, "ns-with/request")
			b.ReportMetric(without, "ns-without/request")
			b.ReportMetric((with/without-1)*100, "%-more")
		})
	}
}

// fasterHalf returns the mean of the smaller half of numbers.
func fasterHalf(numbers []float64) (mean float64) {
	slices.Sort(numbers)
	half := numbers[:(len(numbers)+1)/2]
	for _, n := range half {
		mean += n / float64(len(half))
	}
	return mean
}

// cpuOf returns the processor time of a request, in nanoseconds, of so many requests of 500 clients.
func cpuOf(b *testing.B, server *caddyhttp.Server, counters *storepool.PolicyStats, counts bool, requests int) float64 {
	b.Helper()
	used := counters.Used
	defer func() { counters.Used = used }()
	if !counts {
		counters.Used = nil
	}
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil)
	w := &sink{header: http.Header{}}
	before := cpu(b)
	for i := range requests {
		clear(w.header)
		r.Header["X-Key"] = clientKeys[i%len(clientKeys)]
		ctx, end := context.WithCancel(context.Background())
		server.ServeHTTP(w, r.WithContext(ctx))
		end()
	}
	return float64(cpu(b)-before) / float64(requests)
}

// clientKeys are the values of a header.
var clientKeys = func() (keys [500][]string) {
	for i := range keys {
		keys[i] = []string{fmt.Sprint("client-", i)}
	}
	return keys
}()

// cpu returns the processor time of the process in nanoseconds.
func cpu(b *testing.B) int64 {
	b.Helper()
	var usage syscall.Rusage
	assert.Must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return usage.Utime.Nano() + usage.Stime.Nano()
}
