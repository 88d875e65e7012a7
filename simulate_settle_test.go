package redisratelimit

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// costSite charges what responses cost, of a quota that never drains within a test.
const costSite = ":80 {\n\tredis_ratelimit {client_ip} %d 8760h {\n\t\talgorithm token_bucket\n\t\tweight %d\n\t\t%s\n\t}\n\trespond ok\n}\n"

// TestSimulation_settles_when_responses_end has a request that runs for ten seconds, and one that begins before it
// ends or as it ends.
func TestSimulation_settles_when_responses_end(t *testing.T) {
	for _, test := range []struct {
		name, option  string
		weight, size  int64
		within, after string
	}{
		{"a charge", "cost response_bytes", 1, 30, "aa", "ad"},
		{"a refund", "cost response_bytes", 30, 0, "ad", "aa"},
		{"a refund of all", "count_if status 401", 30, 0, "ad", "aa"},
	} {
		t.Run(test.name, func(t *testing.T) {
			site := fmt.Sprintf(costSite, 30, test.weight, test.option)
			long := runOf("192.0.2.1", 0, 10)
			long.Status, long.Size = http.StatusOK, test.size
			for began, want := range map[float64]string{9.9: test.within, 10: test.after} {
				r, got := simulateCaddyfile(t, site), ""
				for _, e := range []*accesslog.Entry{long, runOf("192.0.2.1", began, 20)} {
					got += string(r.Play(e).Outcome[0])
				}
				if got != want {
					t.Errorf("from %v on: %s, want %s", began, got, want)
				}
			}
		})
	}
}

// TestSimulation_settles_random plays requests of all lengths and compares with a count of what each took, and from
// its end on of what it cost.
func TestSimulation_settles_random(t *testing.T) {
	random := rand.New(rand.NewPCG(33, 1))
	for range 20 {
		const limit = 1000
		weight := 1 + random.IntN(40)
		r := simulateCaddyfile(t, fmt.Sprintf(costSite, limit, weight, "cost response_bytes"))
		var through []*accesslog.Entry
		now := 0.0
		for range 100 {
			now += random.ExpFloat64()
			e := runOf("192.0.2.1", now, now+random.ExpFloat64()*8)
			e.Status, e.Size = http.StatusOK, int64(random.IntN(60))
			used := int64(0)
			for _, other := range through {
				switch {
				case other.Ends > e.Time:
					used += int64(weight)
				case weight == 1:
					used += max(1, other.Size) // a weight of 1 is never given back
				default:
					used += other.Size
				}
			}
			want := replay.Denied
			if used+int64(weight) <= limit {
				want = replay.Allowed
				through = append(through, e)
			}
			if v := r.Play(e); v.Outcome != want {
				t.Fatalf("weight %d, with %d of %d used: %s, want %s", weight, used, limit, v.Outcome, want)
			}
		}
	}
}
