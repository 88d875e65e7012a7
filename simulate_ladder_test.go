package redisratelimit

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// TestReplay_ladder_bystanders plays the recipe's swarm of 2,000 addresses of one /16, and 60 bystanders, who each
// send one request a second at random. docs/recipes.md says how many of the bystanders' requests pass.
func TestReplay_ladder_bystanders(t *testing.T) {
	text, err := os.ReadFile("docs/recipes.md")
	redistest.Must(t, err)
	_, recipe, _ := strings.Cut(string(text), "\n## A ladder against swarms\n")
	_, recipe, _ = strings.Cut(recipe, "```caddyfile\n")
	recipe, _, _ = strings.Cut(recipe, "```\n")
	seconds := redistest.Rounds(15, 60)
	const swarm, bystanders = 2000, 60
	for _, test := range []struct {
		site          string
		least, most   float64       // of the bystanders' requests that pass
		longest       time.Duration // that a bystander is told to wait
		shortestFirst time.Duration
	}{
		{recipe, 0.006, 0.02, time.Second, 0},
		{strings.ReplaceAll(recipe, "\t\t\talgorithm token_bucket\n", ""), 0, 0.02, 61 * time.Second, 30 * time.Second},
	} {
		r := simulateCaddyfile(t, test.site)
		random := rand.New(rand.NewPCG(28, 4))
		e := visitOf("h")
		e.Time = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC).UnixMicro()
		passed, all := 0, 0
		var first, longest time.Duration
		for range (swarm + bystanders) * seconds {
			e.Time += int64(random.ExpFloat64() * 1e6 / (swarm + bystanders))
			who := random.IntN(swarm + bystanders)
			e.Client = fmt.Sprintf("198.18.%d.%d", who%200, who/200)
			v := r.Play(e)
			if who < swarm || all == 0 && v.Outcome == replay.Allowed {
				continue // until the step is full
			}
			all++
			if v.Outcome == replay.Allowed {
				passed++
				continue
			}
			for _, d := range v.Decisions {
				longest = max(longest, d.RetryAfter)
			}
			if first == 0 {
				first = longest
			}
		}
		if share := float64(passed) / float64(all); share < test.least || share > test.most {
			t.Errorf("%d of %d requests of bystanders passed, want %v to %v", passed, all, test.least, test.most)
		}
		if longest > test.longest || first < test.shortestFirst {
			t.Errorf("bystanders are to wait for %v at first, and for %v at most", first, longest)
		}
	}
	r, e := simulateOnly(t, recipe, "provider"), visitOf("h")
	for client, want := range map[string]string{"198.18.7.7": "198.18.0.0/16", "2001:db8:7:7::7": "2001:db8:7::/48"} {
		e.Client = client
		d := r.Play(e).Decisions
		redistest.ErrorIf(t, len(d) != 1 || d[0].Key != want, "%s: got %+v, want the key %s", client, d, want)
	}
}
