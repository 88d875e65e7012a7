package accesslog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestSpreader spreads the requests of a second in the order of the log.
func TestSpreader(t *testing.T) {
	ingress := func(seconds, i int, took float64) string {
		return fmt.Sprintf("1.1.1.1 - - [%s] \"GET /%d HTTP/1.1\" 200 5 \"-\" \"x\" 94 %.3f [a] [] 10.0.0.1:80 5 0.001 200 x\n", clfTime(seconds), i, took)
	}
	for _, tt := range []struct{ name, log, want string }{
		{"starts", clfLine(1, "a") + clfLine(1, "a") + clfLine(2, "a") + clfLine(1, "a") + clfLine(2, "a"), "1166 1500 1833 2250 2750"},
		{"ends with durations", ingress(1, 1, 0) + ingress(1, 2, 0.5) + ingress(2, 3, 2), "/3:500-2500 /1:1250-1250 /2:1250-1750"},
		{"exact times", endedLine(1, 0.5) + endedLine(1, 0.25), "500-1000 750-1000"},
		{"a text without a fraction", timedLine(`"2025-06-15T15:06:41Z"`) + timedLine(`"2025-06-15T15:06:41Z"`), "1250 1750"},
		{"a number without a fraction", timedLine(`1750000001`), "1000"},
	} {
		for _, files := range []ReaderOptions{
			{Files: []string{"-"}, Stdin: strings.NewReader(tt.log)},
			{Files: []string{writeFile(t, "log", []byte(tt.log))}, LongRequests: true},
		} {
			entries, s := readAll(t, files)
			var got []string
			for i := range entries {
				text := timesOf(&entries[i])
				if strings.HasPrefix(tt.want, "/") {
					text = entries[i].URI + ":" + text
				}
				got = append(got, text)
				start := entries[i].AtSecondStart()
				assert.ErrorIf(t, entries[i].clock.coarse && start.Time%1000 != 0, "%s: %+v", tt.name, start)
			}
			assert.Equal(t, strings.Join(got, " "), tt.want, "%s: %+v", tt.name, s.Skipped)
		}
	}
}

// TestSpreader_random compares with a calculation of the whole log at once, for logs that are out of order as those of
// starts are.
func TestSpreader_random(t *testing.T) {
	random := rand.New(rand.NewPCG(61, 62))
	for range assert.Rounds(50, 2000) {
		seconds := make([]int, 1+random.IntN(200))
		for i := range seconds {
			seconds[i] = i/(1+random.IntN(20)) + random.IntN(1+random.IntN(5))
		}
		var log strings.Builder
		count, index := map[int]int{}, make([]int, len(seconds))
		for i, s := range seconds {
			log.WriteString(clfLine(s, "a"))
			index[i] = count[s]
			count[s]++
		}
		var want []int64
		for i, s := range seconds {
			want = append(want, second+int64(s)*1e6+(2*int64(index[i])+1)*1e6/(2*int64(count[s])))
		}
		slices.Sort(want)
		entries, _ := readAll(t, ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(log.String())})
		for i := range entries {
			assert.FatalIf(t, len(entries) != len(want) || entries[i].Time != want[i], "%d of %d: %d, want %d", i, len(want), entries[i].Time, want[i])
		}
	}
}

// TestSpreader_bounds has more requests in a second than may wait: they stay in order, within their second.
func TestSpreader_bounds(t *testing.T) {
	var log strings.Builder
	for range 1000 {
		log.WriteString(clfLine(1, "a"))
	}
	for range 10 {
		log.WriteString(clfLine(2, "a"))
	}
	entries, s := readAll(t, ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(log.String()), Window: 100})
	assert.FatalIf(t, len(entries) != 1010 || s.Late != 0, "%d entries, %d late", len(entries), s.Late)
	for i := range 1000 {
		at := entries[i].Time - second
		assert.FatalIf(t, at < 1_000_000 || at >= 2_000_000 || i > 0 && entries[i].line < entries[i-1].line, "entry %d at %d", i, at)
	}
}

// TestSpreader_order reads logs in any order, such as the newest first, in about the time of one in order.
func TestSpreader_order(t *testing.T) {
	const requests = 100_000
	read := func(order string, at func(i int) int) time.Duration {
		var log strings.Builder
		for i := range requests {
			log.WriteString(clfLine(at(i), "a"))
		}
		began := time.Now()
		entries, s := readAll(t, ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(log.String())})
		took := time.Since(began)
		assert.ErrorIf(t, len(entries) != requests, "%s: %d entries, %+v", order, len(entries), s.Skipped)
		return took
	}
	inOrder := read("in order", func(i int) int { return i })
	const quick = 5 // times; a list that is moved at each line takes twenty
	for order, at := range map[string]func(i int) int{
		"newest first": func(i int) int { return requests - i }, "mixed": func(i int) int { return i * 7919 % requests },
	} {
		took := read(order, at)
		for tries := 1; took > quick*inOrder+time.Second && tries < 5; tries++ { // this machine may be slow for a while
			took = min(took, read(order, at))
		}
		assert.ErrorIf(t, took > quick*inOrder+time.Second, "%s took %v, in order %v", order, took, inOrder)
	}
}
