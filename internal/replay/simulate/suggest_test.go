package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// suggestedLog is a log in Caddy's JSON of a few clients that send pages of requests. The requests take up to some
// seconds, and some are answered with 401.
func suggestedLog() string {
	random := rand.New(rand.NewPCG(57, 1))
	var log strings.Builder
	now := 1_750_000_000.0
	for range 1500 {
		if now += random.Float64() * 0.2; random.IntN(40) == 0 {
			now += random.Float64() * 30
		}
		status, took := 200, random.Float64()*5
		if random.IntN(3) == 0 {
			status = 401
		}
		fmt.Fprintf(&log, `{"level":"info","ts":%.6f,"msg":"handled request","request":{"client_ip":"192.0.2.%d","method":"GET","host":"a.example","uri":"/"},"duration":%.6f,"size":1,"status":%d}`+"\n",
			now+took, min(random.IntN(6), random.IntN(6)), took, status)
	}
	return log.String()
}

// suggested is a policy whose limit is to be found, with %d in place of the limit.
type suggested struct {
	name, policy string
	timed        bool  // on a log with durations, not on one in whole seconds
	weight       int64 // a configuration with a lower limit is refused
}

// play plays a log through the policy with a limit, and with suggestions for an algorithm unless that is empty.
func (s suggested) play(t *testing.T, limit int64, algorithm string) *replay.Result {
	t.Helper()
	r := simulateCaddyfile(t, ":8080 {\n\tredis_ratelimit {\n\t\tpolicy p {\n\t\t\tkey {client_ip}\n"+fmt.Sprintf(s.policy, limit)+"\n\t\t}\n\t}\n\trespond ok\n}\n")
	log, options := accesslog.ReaderOptions{Files: []string{nasaLog()}}, replay.RunOptions{}
	if s.timed {
		log = accesslog.ReaderOptions{Files: []string{"-"}, Stdin: strings.NewReader(suggestedLog())}
	}
	if algorithm != "" {
		options.Suggest = assert.NoError(replay.NewSuggester(r.Policy(0), "{client_ip}", []string{algorithm}))(t)
	}
	return playOn(t, r, r, log, options)
}

// TestSuggest_agrees_with_plain_replays plays a log again for limits that are suggested for it.
func TestSuggest_agrees_with_plain_replays(t *testing.T) {
	const calendar, atOnce = "limit %d\nwindow day America/St_Johns", "max_concurrent %d"
	all := map[string][]suggested{
		"fixed_window":   {{"calendar periods", calendar, false, 1}},
		"max_concurrent": {{"requests at once", atOnce, true, 1}, {"requests at once by their weight", atOnce + "\nweight 2", true, 2}},
	}
	for _, algorithm := range limiter.Algorithms() {
		within := "algorithm " + algorithm + "\nlimit %d\nwindow "
		all[algorithm] = append(all[algorithm], suggested{"minutes", within + "1m", false, 1}, suggested{"days", within + "24h", false, 1},
			suggested{"weights", within + "1m\nweight 3", false, 3}, suggested{"refunds as responses end", within + "10s\ncount_if status 401", true, 1})
	}
	for algorithm, policies := range all { // one after the other: Caddy keeps the storage of what it provisions in a variable
		for _, policy := range policies {
			t.Run(algorithm+"/"+policy.name, func(t *testing.T) {
				s := policy.play(t, 7, algorithm).Suggestions
				ladders := s.Ladders
				if algorithm == "max_concurrent" {
					ladders = []replay.Ladder{*s.Running.Limits}
				}
				if len(ladders[0].Limits) < 5 || ladders[0].Untouched100 < 2 {
					t.Fatalf("%+v", ladders[0])
				}
				for i, want := range ladders[0].Limits {
					if i%3 > 0 || want.Limit < policy.weight {
						continue // a third of them is enough for the time
					}
					got := policy.play(t, want.Limit, "").Policies[0]
					if got.Denied != want.Denied || got.ClientsDenied != want.ClientsDenied {
						t.Errorf("limit %d: a replay denies %d requests of %d clients, suggested were %+v", want.Limit, got.Denied, got.ClientsDenied, want)
					}
				}
				for limit, touches := range map[int64]bool{ladders[0].Untouched100: false, max(policy.weight, ladders[0].Untouched100-1): true} {
					got := policy.play(t, limit, "")
					assert.ErrorIf(t, (got.Denied > 0) != touches, "limit %d denies %d, the smallest that denies nothing is to be %d", limit, got.Denied, ladders[0].Untouched100)
				}
			})
		}
	}
}
