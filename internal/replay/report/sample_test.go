package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// sampleResult is a lively day: three policies, an attack after lunch, suggestions for one of them. It is
// the same at every call.
func sampleResult() *replay.Result {
	random := rand.New(rand.NewPCG(1, 2))
	r := &replay.Result{
		Clients: 2_365, ClientsDenied: 61, Step: time.Minute, Unlimited: 3_811, Exempt: 960, Unplayable: 3,
		First: time.Date(2026, 11, 3, 0, 0, 4, 0, time.UTC), Last: time.Date(2026, 11, 3, 23, 59, 51, 0, time.UTC),
		Policies: []replay.PolicyResult{
			{Name: "api", Algorithm: "sliding_window_counter", Limit: 100, Window: time.Minute, Key: "{client_ip}", Clients: 2_290, ClientsDenied: 12},
			{Name: "login", Algorithm: "fixed_window", Limit: 5, Window: 5 * time.Minute, Key: "{client_ip}", Clients: 418, ClientsDenied: 49},
			{Name: "search", Algorithm: "gcra", Limit: 30, Window: time.Minute, Burst: 10, Key: "{http.request.header.X-Api-Key}", DryRun: true, Clients: 96, EmptyKeys: 1_204},
		},
		Warnings: []string{
			"The header X-Api-Key is redacted in 1,204 lines, so that their clients share one key.",
		},
		Skipped: []string{"reverse_proxy", "encode"},
		Log:     sampleLog(),
	}
	sampleTimelines(r, random)
	for i := range r.Policies {
		samplePeaks(&r.Policies[i])
		sampleWorst(&r.Policies[i])
	}
	r.Suggestions = sampleSuggestions(r.Policies[0])
	r.Suggestions.Running = sampleRunning(r.First)
	r.Suggestions.Running.Limits = &replay.Ladder{
		Algorithm: "max_concurrent", Untouched99: 4, Untouched999: 11, Untouched100: 38,
		Limits: []replay.LimitResult{{Limit: 1, Denied: 9_000, ClientsDenied: 700}, {Limit: 2, Denied: 4_100, ClientsDenied: 310}, {Limit: 4, Denied: 1_200, ClientsDenied: 20}, {Limit: 8, Denied: 410, ClientsDenied: 6}, {Limit: 12, Denied: 180, ClientsDenied: 2}, {Limit: 40, Denied: 0, ClientsDenied: 0}},
	}
	downloads := replay.PolicyResult{
		Name: "downloads", MaxConcurrent: 20, Key: "{client_ip}", Requests: 2_000, Clients: 2_290,
		Units:   &replay.Units{Offered: 6_000, Admitted: 5_400, Denied: 600, Charged: 1_234_567, Refunded: 12},
		Running: sampleRunning(r.First),
	}
	downloads.Timeline = r.Policies[0].Timeline
	r.Policies = append(r.Policies, downloads)
	return r
}

// sampleTimelines fills in the timelines and the sums that follow from them.
func sampleTimelines(r *replay.Result, random *rand.Rand) {
	shares := []float64{0.8, 0.08, 0.12}
	for minute := range 24 * 60 {
		hour := float64(minute) / 60
		level := 14 + 26*bell((hour-11)/3.2) + 20*bell((hour-20)/2)
		begins := r.First.Truncate(time.Minute).Add(time.Duration(minute) * time.Minute)
		all := replay.Bucket{Begins: begins}
		for i, share := range shares {
			m := replay.Bucket{Begins: begins, Requests: int64(level * share * (0.7 + 0.6*random.Float64()))}
			if i == 0 && minute > 13*60+20 && minute < 14*60+5 {
				m.Denied = 20 + random.Int64N(40)
			} else if i == 1 && random.IntN(9) == 0 {
				m.Denied = 1 + random.Int64N(3)
			}
			m.Requests += m.Denied
			p := &r.Policies[i]
			p.Timeline = append(p.Timeline, m)
			p.Requests, p.Denied = p.Requests+m.Requests, p.Denied+m.Denied
			all.Requests, all.Denied = all.Requests+m.Requests, all.Denied+m.Denied
		}
		r.Timeline = append(r.Timeline, all)
		r.Requests, r.Denied = r.Requests+all.Requests, r.Denied+all.Denied
		if all.Requests > r.Peak.Requests {
			r.Peak = replay.Minute(all)
		}
	}
}

func bell(x float64) float64 { return math.Exp(-x * x) }

// samplePeaks lets most clients come once, and as many as were denied more often than the limit.
func samplePeaks(p *replay.PolicyResult) {
	starts := []int64{1, 2, 3, 4, 6, 10, 15, 20, 30, 40, 60, 101, 150, 200, 300, 400, 600}
	starts[slices.IndexFunc(starts, func(start int64) bool { return start > p.Limit })] = p.Limit + 1
	within, above := p.Clients-p.ClientsDenied, p.ClientsDenied
	for i, from := range starts[:len(starts)-1] {
		left := &within
		if from > p.Limit {
			left = &above
		}
		n := *left
		if starts[i+1] != p.Limit+1 && i < len(starts)-2 {
			n = (n*3 + 6) / 7
		}
		p.PeakRates = append(p.PeakRates, replay.PeakRate{From: from, To: starts[i+1] - 1, Clients: n})
		*left -= n
	}
	for len(p.PeakRates) > 0 && p.PeakRates[len(p.PeakRates)-1].Clients == 0 {
		p.PeakRates = p.PeakRates[:len(p.PeakRates)-1]
	}
}

func sampleWorst(p *replay.PolicyResult) {
	for i := range min(10, p.ClientsDenied) {
		denied := p.Denied / int64(3+2*i)
		began := time.Date(2026, 11, 3, 13, 21+i, 7, 0, time.UTC)
		p.Worst = append(p.Worst, replay.ClientResult{
			Key: fmt.Sprintf("2001:db8:%x::/64", 0xa1+i*77), Requests: denied + 310, Denied: denied,
			FirstDenied: began, LongestBegan: began.Add(4 * time.Minute), LongestLasted: time.Duration(900-70*i) * time.Second, LongestDenied: denied / 2,
		})
	}
}

// sampleRunning is a day of requests at once with one busy client.
func sampleRunning(first time.Time) *replay.RunningResult {
	return &replay.RunningResult{
		Requests: 33_000, Untimed: 120, Peak: 38, PeakAt: first.Add(11 * time.Hour), Together: 211, TogetherAt: first.Add(20 * time.Hour),
		Clients: 2_290, Peaks: []replay.PeakRate{{From: 1, To: 1, Clients: 1_500}, {From: 2, To: 2, Clients: 700}, {From: 3, To: 20, Clients: 80}, {From: 21, To: 40, Clients: 10}},
		Busiest: []replay.RunningKey{{Key: "2001:db8:a1::/64", Requests: 4_000, Peak: 38, PeakAt: first.Add(11 * time.Hour)}, {Key: "192.0.2.1", Requests: 900, Peak: 7, PeakAt: first}},
	}
}

func sampleLog() replay.LogReport {
	return replay.LogReport{
		Files: []replay.FileReport{
			{Name: "access-2026-11-03.log", Format: "Caddy's JSON", Lines: 33_202},
			{Name: "access-2026-11-02.log.gz", Format: "Combined Log Format, gzip", Lines: 2_544, Error: "unexpected end of the compressed data"},
		},
		Lines: 35_746, Malformed: 2, Other: 41, Late: 12, LatestBy: 4 * time.Second,
		First5: []replay.BadLine{
			{Where: "access-2026-11-03.log:1288", Reason: "no time", Text: `{"level":"info","request":{"remote_ip":"192.0.2.7"}}`},
			{Where: "access-2026-11-02.log.gz:2544", Reason: "cut off", Text: `192.0.2.9 - - [02/Nov/2026:23:5`},
		},
	}
}

func sampleSuggestions(p replay.PolicyResult) *replay.Suggestions {
	s := &replay.Suggestions{Policy: p.Name, Key: p.Key, Window: p.Window, Requests: p.Requests, Clients: p.Clients, OwnLimit: p.Limit}
	for i, name := range []string{"sliding_window_counter", "sliding_window_log", "fixed_window", "token_bucket", "leaky_bucket", "gcra"} {
		l := replay.Ladder{Algorithm: name, Untouched99: 80, Untouched999: 140, Untouched100: 420}
		strict := []float64{1, 1, 0.8, 0.72, 0.7, 0.7}[i]
		for limit := int64(5); limit <= 500; limit += max(1, limit/5) {
			x := float64(limit) / strict / 60
			l.Limits = append(l.Limits, replay.LimitResult{
				Limit: limit, Denied: int64(float64(p.Requests) * 0.55 * math.Exp(-x*1.5)), ClientsDenied: int(float64(p.Clients) * 0.8 * math.Exp(-x*3.2)),
			})
		}
		if i > 2 {
			l.Untouched99, l.Untouched999 = 66, 121
		}
		s.Ladders = append(s.Ladders, l)
	}
	return s
}
