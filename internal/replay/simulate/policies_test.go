package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// TestReplay_reserve replays exports that leave two of five units to others.
func TestReplay_reserve(t *testing.T) {
	const policy = "name api\nkey all\nlimit 5\nwindow 1h\n"
	r := simulateCaddyfile(t, ":8080 {\n@export path /export\nredis_ratelimit @export {\n"+policy+"reserve 40%\n}\n@rest not path /export\nredis_ratelimit @rest {\n"+policy+"}\n}\n")
	export, checkout := visitOf("h"), visitOf("h")
	export.URI, checkout.URI = "/export", "/checkout"
	for i := range 8 {
		e, want := export, limiter.OutcomeAllowed
		if i >= 5 {
			e = checkout
		}
		if i == 3 || i == 4 || i == 7 {
			want = limiter.OutcomeDenied
		}
		v := r.Play(e)
		assert.ErrorIf(t, v.Outcome != want || len(v.Policies) != 1 || (v.Policies[0].Reserve == 2) != (i < 5),
			"request %d: got %+v, want %s", i, v, want)
	}
	options := r.Policies()[0].All()
	assert.ErrorIf(t, !strings.Contains(fmt.Sprint(options), "reserve 40%"), "the options are %v", options)
}

// TestReplay_unlimited replays requests whose limits are unlimited, 0 and numbers.
func TestReplay_unlimited(t *testing.T) {
	for dryRun, outcomes := range map[string][]limiter.Outcome{
		"":        {limiter.OutcomeUnlimited, limiter.OutcomeDenied, limiter.OutcomeAllowed, limiter.OutcomeDenied},
		"dry_run": {limiter.OutcomeUnlimited, limiter.OutcomeAllowed, limiter.OutcomeAllowed, limiter.OutcomeAllowed},
	} {
		r := simulateCaddyfile(t, ":8080 {\nredis_ratelimit {\nname api\nkey all\nlimit {query.l} unlimited\nwindow 1h\n"+dryRun+"\n}\n}\n")
		for i, limit := range []string{"", "0", "1", "1"} {
			e := visitOf("h")
			e.URI = "/?l=" + limit
			v := r.Play(e)
			decided := len(v.Policies) == 1 && v.Policies[0].Denied == (i == 1 || i == 3)
			assert.ErrorIf(t, v.Outcome != outcomes[i] || decided != (i > 0), "%s: limit %q: got %+v, want %s", dryRun, limit, v, outcomes[i])
		}
		if p := r.Policies()[0]; p.Limit != 0 || !p.Unlimited || p.Sentence() != "{http.request.uri.query.l} requests per hour for all clients together, else unlimited" {
			t.Errorf("the policy is %+v: %s", p, p.Sentence())
		}
	}
}

// TestReplay_ladder_bystanders plays the recipe's swarm of 2,000 addresses of one /16, and 60 bystanders, who each
// send one request a second at random. docs/recipes.md says how many of the bystanders' requests pass.
func TestReplay_ladder_bystanders(t *testing.T) {
	text := assert.NoError(os.ReadFile("../../../docs/recipes.md"))(t)
	_, recipe, _ := strings.Cut(string(text), "\n## A ladder against swarms\n")
	_, recipe, _ = strings.Cut(recipe, "```caddyfile\n")
	recipe, _, _ = strings.Cut(recipe, "```\n")
	seconds := assert.Rounds(15, 60)
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
			if who < swarm || all == 0 && v.Outcome == limiter.OutcomeAllowed {
				continue // until the step is full
			}
			all++
			if v.Outcome == limiter.OutcomeAllowed {
				passed++
				continue
			}
			for _, d := range v.Policies {
				longest = max(longest, d.RetryAfter)
			}
			if first == 0 {
				first = longest
			}
		}
		if share := float64(passed) / float64(all); share < test.least || share > test.most {
			t.Errorf("%d of %d requests of bystanders passed, want %v to %v", passed, all, test.least, test.most)
		}
		assert.ErrorIf(t, longest > test.longest || first < test.shortestFirst,
			"bystanders are to wait for %v at first, and for %v at most", first, longest)
	}
	r, e := simulateOnly(t, recipe, "provider"), visitOf("h")
	for client, want := range map[string]string{"198.18.7.7": "198.18.0.0/16", "2001:db8:7:7::7": "2001:db8:7::/48"} {
		e.Client = client
		d := r.Play(e).Policies
		assert.ErrorIf(t, len(d) != 1 || d[0].Key != want, "%s: got %+v, want the key %s", client, d, want)
	}
}

// TestReplay_dry_run_refuses_nothing has a dry-run policy that would answer with an error.
func TestReplay_dry_run_refuses_nothing(t *testing.T) {
	for name, more := range map[string]string{
		"empty key":   "on_empty_key reject\npolicy a {\nkey {header.X-Key}\nlimit 1\nwindow 1h\ndry_run\n}",
		"every one":   "on_empty_key reject\ndry_run\npolicy a {\nkey {header.X-Key}\nlimit 1\nwindow 1h\n}",
		"its matcher": "policy a {\nlimit 1\nwindow 1h\ndry_run\nmatch {\nexpression `int({query.n}) > 1`\n}\n}",
	} {
		t.Run(name, func(t *testing.T) {
			r := simulateCaddyfile(t, ":8080 {\nredis_ratelimit {\n"+more+"\n}\nredis_ratelimit same 2 1h {\nname b\n}\n}\n")
			for i, want := range []limiter.Outcome{limiter.OutcomeAllowed, limiter.OutcomeAllowed, limiter.OutcomeDenied} {
				v := r.Play(visitOf("h"))
				assert.ErrorIf(t, v.Outcome != want, "request %d: got %+v, want %s", i, v, want)
			}
			alone := simulateCaddyfile(t, ":8080 {\nredis_ratelimit {\n"+more+"\n}\n}\n")
			v := alone.Play(visitOf("h"))
			assert.ErrorIf(t, v.Outcome != limiter.OutcomeAllowed, "alone: got %+v, want allowed", v)
		})
	}
}

// TestReplay_refused_request_settles_by_the_refusal has one policy deny what another one has passed, in
// the same handler and further in. The log tells of responses that count and cost something.
func TestReplay_refused_request_settles_by_the_refusal(t *testing.T) {
	const tight = "policy tight {\nkey same\nlimit 1\nwindow 1h\n}\n"
	for name, site := range map[string]string{
		"dry run":    "redis_ratelimit {\n" + tight + "policy p {\nkey same\nlimit 1000\nwindow 1h\ndry_run\n%s\n}\n}",
		"further in": "route {\nredis_ratelimit same 1000 1h {\nname p\n%s\n}\nredis_ratelimit {\n" + tight + "}\n}",
	} {
		for option, want := range map[string]int64{
			"count_if status 401": 1,     // the request that passes
			"count_if status 429": 9,     // those that are denied
			"cost response_bytes": 9 + 5, // a unit of each that is denied, and the response of the one that passes

			"weight 50\ncost response_bytes": 5, // of estimates nothing stays
		} {
			t.Run(name+"/"+option, func(t *testing.T) {
				r := simulateCaddyfile(t, ":8080 {\n"+fmt.Sprintf(site, option)+"\n}\n")
				e := visitOf("h")
				e.Status, e.Size = http.StatusUnauthorized, 5
				for range 10 {
					r.Play(e)
				}
				assert.Equal(t, 1000-r.Remaining("p", "same"), want, "what is used")
			})
		}
	}
}

// TestReplay_enforce denies the clients that nodes deny, and counts the others as a dry run.
func TestReplay_enforce(t *testing.T) {
	const site = ":8080 {\nredis_ratelimit {client_ip} 1 1h {\nname rolled\nenforce 25%\n}\n}\n"
	r, rules, denied := simulateCaddyfile(t, site), limiterIn(t, provisionedServer(t, "{\n\tadmin off\n}\n"+site)).Rules.Rules, 0
	for i := range 100 {
		entry := visitOf("h")
		entry.Client = fmt.Sprintf("192.0.2.%d", i)
		r.Play(entry)
		v := r.Play(entry)
		enforced := rules[0].Enforces(limiter.EncodeKey(entry.Client))
		want := limiter.OutcomeAllowed
		if enforced {
			want, denied = limiter.OutcomeDenied, denied+1
		}
		if v.Outcome != want || len(v.Policies) != 1 || !v.Policies[0].Denied || v.Policies[0].DryRun == enforced {
			t.Errorf("%s: got %+v, want %s", entry.Client, v, want)
		}
	}
	assert.ErrorIf(t, denied < 10 || denied > 40, "%d of 100 clients are limited, want about 25", denied)
	p := r.Policies()[0]
	assert.ErrorIf(t, p.DryRun() || p.Set("enforce") != "25%", "got the policy %+v", p)
}

// TestReplay_usage has looks at a usage page in the log: they meet no policy.
func TestReplay_usage(t *testing.T) {
	r := simulateCaddyfile(t, ":8080 {\nredis_ratelimit same 2 1h {\nname a\nusage /quota\n}\n}\n")
	inside := simulateCaddyfile(t, ":8080 {\nroute {\nredis_ratelimit same 100 1h {\nname p\nweight 50\ncost {http.response.header.X-Cost} 40\n}\n"+
		"redis_ratelimit same 2 1h {\nname a\nusage /quota\n}\n}\n}\n")
	for range 3 {
		entry := visitOf("h")
		entry.Method, entry.URI, entry.Status = "GET", "/quota", http.StatusOK
		v := inside.Play(entry)
		assert.ErrorIf(t, v.Outcome != limiter.OutcomeAllowed || inside.Remaining("p", "same") != 100, "got %+v, and %d left; want all", v, inside.Remaining("p", "same"))
	}
	for i, want := range []limiter.Outcome{limiter.OutcomeUnlimited, limiter.OutcomeAllowed, limiter.OutcomeUnlimited, limiter.OutcomeAllowed, limiter.OutcomeUnlimited, limiter.OutcomeDenied} {
		entry := visitOf("h")
		if entry.Method = "GET"; i%2 == 0 {
			entry.URI = "/Quota?x=y"
		}
		v := r.Play(entry)
		assert.ErrorIf(t, v.Outcome != want, "request %d: got %+v, want %s", i, v, want)
	}
}
