package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

const second = int64(1_000_000)

// runOf is a request of a client that ran from a second to another.
func runOf(client string, began, ended float64) *accesslog.Entry {
	e := visitOf("")
	e.Client, e.Time, e.Ends = client, 1_750_000_000*second+int64(began*1e6), 1_750_000_000*second+int64(ended*1e6)
	return e
}

// runningSite limits running requests, and those behind them by the lines within.
func runningSite(limit, within string) string {
	return fmt.Sprintf(":80 {\n\tredis_ratelimit {\n\t\tpolicy running {\n\t\t\tkey {client_ip}\n\t\t\tmax_concurrent %s\n\t\t}\n\t}\n\troute {\n\t\t%s\n\t\trespond ok\n\t}\n}\n", limit, within)
}

// outcomes plays requests of one client, given as pairs of seconds, and returns a letter for each.
func outcomes(t *testing.T, caddyfile string, pairs ...[2]float64) (letters string) {
	t.Helper()
	r := simulateCaddyfile(t, caddyfile)
	for _, pair := range pairs {
		letters += string(r.Play(runOf("192.0.2.1", pair[0], pair[1])).Outcome[0])
	}
	return letters
}

func TestSimulation_running(t *testing.T) {
	const window = "redis_ratelimit {client_ip} 1 1h {\n\t\t\tname window\n\t\t}\n"
	const queue = "redis_ratelimit {\n\t\t\tpolicy queue {\n\t\t\t\tkey {client_ip}\n\t\t\t\talgorithm leaky_bucket\n\t\t\t\tlimit 60\n\t\t\t\twindow 1m\n\t\t\t\tburst 10\n\t\t\t\tmax_delay 10s\n\t\t\t}\n\t\t}\n"
	for _, test := range []struct {
		name, caddyfile string
		pairs           [][2]float64
		want            string
	}{
		{"room when one ends", runningSite("2", ""), [][2]float64{{0, 9}, {1, 5}, {2, 3}, {5, 6}, {5.5, 6}, {6, 7}}, "aadada"},
		{"denied ones do not run", runningSite("1", ""), [][2]float64{{0, 2}, {1, 100}, {2, 3}, {2, 9}, {3, 4}}, "adada"},
		{"nor those that another policy denies", runningSite("1", window), [][2]float64{{0, 1}, {1, 100}, {2, 100}}, "add"},
		{"one that ends as it begins", runningSite("1", ""), [][2]float64{{0, 0}, {0, 0}, {0, 1}, {0, 0}}, "aaad"},
		{"a queue's wait counts", runningSite("2", queue), [][2]float64{{0, 0.1}, {0, 0.1}, {0.5, 0.6}, {0.9, 1}, {1.2, 1.3}}, "aaada"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := outcomes(t, test.caddyfile, test.pairs...)
			assert.ErrorIf(t, got != test.want, "got %s, want %s", got, test.want)
		})
	}
}

// TestSimulation_wait refuses who would wait, and says so. One that is too heavy would not wait either.
func TestSimulation_wait(t *testing.T) {
	r := simulateCaddyfile(t, ":80 {\n\tredis_ratelimit {\n\t\tpolicy gpu {\n\t\t\tkey {client_ip}\n\t\t\tmax_concurrent 2\n\t\t\tweight {query.w} 1\n\t\t\twait 1m\n\t\t}\n\t}\n\trespond ok\n}\n")
	play := func(uri string, began, ended float64) byte {
		e := runOf("192.0.2.1", began, ended)
		e.URI = uri
		return r.Play(e).Outcome[0]
	}
	got := string([]byte{play("/", 0, 9), play("/", 1, 9), play("/?w=3", 2, 3)})
	assert.Equal(t, got, "aad", "the outcomes")
	assert.Equal(t, len(r.Warnings()), 0, "warnings while none would wait")
	got = string([]byte{play("/", 2, 3), play("/?w=2", 8, 9), play("/?w=2", 9, 10)})
	assert.Equal(t, got, "dda", "the outcomes")
	const want = "policy gpu: requests that would wait for a place, which is not played: they count as denied, although most would start later, and a log that was written with wait has the waits in its durations: 2"
	assert.Equal(t, strings.Join(r.Warnings(), "\n"), want, "the warnings")
}

// A policy that denied nothing because another one denied leaves its places free.
func TestSimulation_running_behind_a_denial(t *testing.T) {
	const window = "redis_ratelimit {client_ip} 1 1h {\n\t\t\tname window\n\t\t}\n"
	r := simulateCaddyfile(t, runningSite("1", window))
	for i, want := range []string{"allowed running window", "denied running window", "denied running window"} {
		v := r.Play(runOf("192.0.2.1", float64(i), float64(i)+0.5))
		got := string(v.Outcome)
		for _, d := range v.Policies {
			got += " " + r.Policies()[d.Policy].Name
			assert.ErrorIf(t, d.Denied != (v.Outcome == limiter.OutcomeDenied && d.Policy == 1), "request %d: %+v", i, d)
		}
		assert.ErrorIf(t, got != want, "request %d: %s, want %s", i, got, want)
	}
}

// Requests bring their limits of running requests along.
func TestSimulation_running_placeholder(t *testing.T) {
	r := simulateCaddyfile(t, runningSite("{query.n} unlimited", ""))
	for i, want := range []string{"n=1 allowed", "n=1 denied", "n=2 allowed", " unlimited", "n=unlimited unlimited", "n=0 denied"} {
		query, outcome, _ := strings.Cut(want, " ")
		e := runOf("192.0.2.1", float64(i), 100)
		e.URI = "/?" + query
		v := r.Play(e)
		assert.ErrorIf(t, string(v.Outcome) != outcome, "%q: %s, want %s", query, v.Outcome, outcome)
	}
	if p := r.Policies()[0]; !p.CountsRunning() || !strings.HasPrefix(p.Sentence(), "{http.request.uri.query.n} requests at once for ") || !strings.HasSuffix(p.Sentence(), ", else unlimited") {
		t.Errorf("%s", p.Sentence())
	}
}

func TestSimulation_running_without_durations(t *testing.T) {
	r := simulateCaddyfile(t, runningSite("1", ""))
	for range 5 {
		e := runOf("192.0.2.1", 0, 0)
		e.Ends = 0
		v := r.Play(e)
		assert.ErrorIf(t, v.Outcome != limiter.OutcomeAllowed, "%+v", v)
	}
}

// TestSimulation_running_random plays requests of all lengths and compares with a count over those that were let
// through.
func TestSimulation_running_random(t *testing.T) {
	random, play := rand.New(rand.NewPCG(19, 1)), assert.NewPlay(t, 19)
	for range 20 {
		limit := 1 + random.IntN(5)
		r := simulateCaddyfile(t, runningSite(fmt.Sprint(limit), ""))
		through := map[string][]*accesslog.Entry{}
		now := 0.0
		for range 300 {
			now += random.ExpFloat64()
			client := fmt.Sprint("192.0.2.", random.IntN(3))
			e := runOf(client, now, now+random.ExpFloat64()*8)
			play.Step("%s from %.6f s to %.6f s, at most %d at once", client, now, float64(e.Ends-e.Time)/1e6+now, limit)
			count := 0
			for _, other := range through[client] {
				if other.Ends > e.Time {
					count++
				}
			}
			want := limiter.OutcomeDenied
			if count < limit {
				want = limiter.OutcomeAllowed
				through[client] = append(through[client], e)
			}
			v := r.Play(e)
			assert.FatalIf(t, v.Outcome != want, "with %d of %d running: %s, want %s", count, limit, v.Outcome, want)
		}
	}
}
