package simulate_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/redis-ratelimit/caddy-redis-ratelimit" // the Caddyfiles have its directive
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/simulate"
)

// nasaLog is a real log. NASA_LOG names a longer one.
func nasaLog() string {
	if path := os.Getenv("NASA_LOG"); path != "" {
		return path
	}
	return "../testdata/nasa-1995-08-01.log.gz"
}

// openNASA reads the log's lines.
func openNASA(t testing.TB) io.Reader {
	t.Helper()
	file := assert.NoError(os.Open(nasaLog()))(t)
	t.Cleanup(func() { _ = file.Close() }) // it was only read
	unpacked := assert.NoError(gzip.NewReader(file))(t)
	return unpacked
}

// nasaSite limits each client.
func nasaSite(limit, algorithm string) string {
	return ":8080 {\n\tredis_ratelimit {client_ip} " + limit + " {\n\t\talgorithm " + algorithm + "\n\t}\n\trespond ok\n}\n"
}

// adapt makes a Caddyfile the configuration that it means.
func adapt(t testing.TB, caddyfile string) []byte {
	t.Helper()
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), nil)
	assert.Must(t, err)
	return config
}

// simulateCaddyfile sets a Caddyfile up to be played.
func simulateCaddyfile(t testing.TB, caddyfile string) *simulate.Simulation {
	t.Helper()
	return simulateOnly(t, caddyfile, "")
}

// simulateOnly has one policy alone decide.
func simulateOnly(t testing.TB, caddyfile, policy string) *simulate.Simulation {
	t.Helper()
	r := assert.NoError(simulate.New(adapt(t, caddyfile), policy))(t)
	t.Cleanup(r.Close)
	return r
}

// play plays a log through a Caddyfile.
func play(t testing.TB, caddyfile string, log accesslog.ReaderOptions) *replay.Result {
	t.Helper()
	r := simulateCaddyfile(t, caddyfile)
	return playOn(t, r, r, log, replay.RunOptions{})
}

// playOn plays a log through an engine, with a simulation's options for reading it.
func playOn(t testing.TB, r *simulate.Simulation, engine replay.Engine, log accesslog.ReaderOptions, options replay.RunOptions) *replay.Result {
	t.Helper()
	asked := r.LogOptions()
	asked.Files, asked.Stdin = log.Files, log.Stdin
	reader := assert.NoError(accesslog.Open(asked))(t)
	t.Cleanup(func() { _ = reader.Close() })
	return assert.NoError(replay.Run(reader, engine, options))(t)
}

// recorder keeps what a simulation decides.
type recorder struct {
	*simulate.Simulation

	played []played
}

type played struct {
	client  string
	outcome limiter.Outcome
}

// Play implements [replay.Engine].
func (r *recorder) Play(e *accesslog.Entry) *replay.Decision {
	v := r.Simulation.Play(e)
	r.played = append(r.played, played{e.Client, v.Outcome})
	return v
}

// loggedVisit is a request of the log as the test reads it by itself.
type loggedVisit struct {
	client string
	at     int64 // microseconds
}

var commonLog = regexp.MustCompile(`^(\S+) \S+ \S+ \[([^\]]+)\] ".*" \d+ \S+$`)

// visits reads the log, whose lines are in order, and spreads those of a second over it.
func visits(t *testing.T) (list []loggedVisit) {
	t.Helper()
	lines := bufio.NewScanner(openNASA(t))
	first := map[int64]int{} // index of each second
	for lines.Scan() {
		found := commonLog.FindStringSubmatch(lines.Text())
		assert.FatalIf(t, found == nil, "the test cannot read %q", lines.Text())
		at := assert.NoError(time.Parse("02/Jan/2006:15:04:05 -0700", found[2]))(t)
		if _, known := first[at.Unix()]; !known {
			first[at.Unix()] = len(list)
		}
		list = append(list, loggedVisit{found[1], at.Unix()})
	}
	count := map[int64]int64{}
	for _, v := range list {
		count[v.at]++
	}
	for i, v := range list {
		k := count[v.at]
		list[i].at = v.at*1e6 + (2*int64(i-first[v.at])+1)*1e6/(2*k)
	}
	return list
}

// byLog decides with a sliding window log, written for obviousness: all that was admitted is kept.
func byLog(limit int, window int64) func(v loggedVisit) bool {
	admitted := map[string][]int64{}
	return func(v loggedVisit) bool {
		used := 0
		for _, at := range admitted[v.client] {
			if at > v.at-window {
				used++
			}
		}
		if used >= limit {
			return false
		}
		admitted[v.client] = append(admitted[v.client], v.at)
		return true
	}
}

// byCounter decides with a sliding window counter, in fractions.
func byCounter(limit, window int64) func(v loggedVisit) bool {
	type place struct {
		client string
		window int64
	}
	counts := map[place]int64{}
	return func(v loggedVisit) bool {
		here, elapsed := place{v.client, v.at / window}, v.at%window
		before := counts[place{v.client, here.window - 1}]
		if counts[here]+before*(window-elapsed)/window >= limit { // the share of the window before, rounded down
			return false
		}
		counts[here]++
		return true
	}
}

// TestReplay_decides_a_real_log_as_others_would compares line for line with independent
// implementations.
func TestReplay_decides_a_real_log_as_others_would(t *testing.T) {
	list := visits(t)
	for _, limit := range []int{3, 10, 15} {
		for algorithm, passes := range map[string]func(loggedVisit) bool{
			"sliding_window_log":     byLog(limit, 60e6),
			"sliding_window_counter": byCounter(int64(limit), 60e6),
		} {
			t.Run(fmt.Sprint(algorithm, "/", limit), func(t *testing.T) {
				recorded := &recorder{Simulation: simulateCaddyfile(t, nasaSite(strconv.Itoa(limit)+" 1m", algorithm))}
				result := playOn(t, recorded.Simulation, recorded, accesslog.ReaderOptions{Files: []string{nasaLog()}}, replay.RunOptions{})
				denied := int64(0)
				for i, v := range list {
					want := played{v.client, limiter.OutcomeDenied}
					if passes(v) {
						want.outcome = limiter.OutcomeAllowed
					} else {
						denied++
					}
					assert.FatalIf(t, i >= len(recorded.played) || recorded.played[i] != want, "line %d: want %v", i+1, want)
				}
				if len(recorded.played) != len(list) || result.Denied != denied || result.Requests != int64(len(list)) || denied == 0 {
					t.Errorf("%d of %d requests denied, want %d of %d", result.Denied, result.Requests, denied, len(list))
				}
				t.Logf("%d of %d denied", denied, len(list))
			})
		}
	}
}

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
		{"a refund of all", "count_if status 401\n\t\tin_flight 0", 30, 0, "ad", "aa"},
		{"a look", "count_if status 401", 30, 0, "aa", "aa"},
		{"a look that is charged", "count_if status 200", 30, 0, "aa", "ad"},
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
				assert.Equal(t, got, want, "from %v on", began)
			}
		})
	}
}

// TestSimulation_settles_random plays requests of all lengths and compares with a count of what each took, and from
// its end on of what it cost.
func TestSimulation_settles_random(t *testing.T) {
	random, play := rand.New(rand.NewPCG(33, 1)), assert.NewPlay(t, 33)
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
			play.Step("from %.6f s on for %.6f s: %d units that cost %d", now, float64(e.Ends-e.Time)/1e6, weight, e.Size)
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
			want := limiter.OutcomeDenied
			if used+int64(weight) <= limit {
				want = limiter.OutcomeAllowed
				through = append(through, e)
			}
			if v := r.Play(e); v.Outcome != want {
				t.Fatalf("weight %d, with %d of %d used: %s, want %s", weight, used, limit, v.Outcome, want)
			}
		}
	}
}
