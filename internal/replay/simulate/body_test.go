package simulate_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// bodySite has policies by bodies: the key of each on_empty_key, matchers, and numbers.
const bodySite = `:8080 {
	@login path /login
	redis_ratelimit @login {
		policy account {
			key {form.email}
			limit 1
			window 1h
			on_empty_key reject
		}
	}
	@other path /other
	redis_ratelimit @other {
		policy by-address {
			key {form.email}
			limit 1
			window 1h
		}
		policy skipped {
			key {client_ip}|{json.user}
			limit 1
			window 1h
			on_empty_key skip
		}
		policy large {
			match vars {json.model} large
			limit 1
			window 1h
		}
		policy expression {
			match expression ` + "`{http.redis_ratelimit.json.model}.startsWith(\"large\")`" + `
			limit 1
			window 1h
		}
		policy pages {
			match {
				method GET
				vars {json.model} large
			}
			limit 1
			window 1h
		}
		policy tokens {
			limit {json.limit} 100
			window 1h
			weight llm 30
		}
		policy calls {
			limit 100
			window 1h
			weight calls 30
		}
		policy plain {
			limit 100
			window 1h
		}
	}
}
`

// TestReplay_bodies plays requests whose bodies decide, and which a log lacks.
func TestReplay_bodies(t *testing.T) {
	r := simulateCaddyfile(t, bodySite)
	post := func(uri string, header http.Header) *replay.Decision {
		e := visitOf("h")
		e.Method, e.URI, e.Header = "POST", uri, header
		return r.Play(e)
	}
	for range 3 {
		v := post("/login", nil)
		assert.ErrorIf(t, v.Outcome != limiter.OutcomeRejected || len(v.Policies) != 1 || !v.Policies[0].EmptyKey, "a log-in: %+v", v)
	}
	v := post("/other", nil)
	met := map[string]replay.PolicyDecision{}
	for _, d := range v.Policies {
		met[r.Policies()[d.Policy].Name] = d
	}
	assert.ErrorIf(t, v.Outcome != limiter.OutcomeAllowed || len(met) != 5, "a request: %+v", v)
	assert.ErrorIf(t, met["by-address"].Key != "%ip:192.0.2.1" || !met["skipped"].LeftOut, "the keys: %+v", met)
	assert.Equal(t, met["tokens"].Weight, 30, "the weight")
	assert.Equal(t, met["calls"].Weight, 1, "the weight of calls")
	assert.Equal(t, met["plain"].Weight, 1, "the weight of another policy")

	get := visitOf("h")
	get.URI = "/other"
	assert.Equal(t, r.Play(get).Outcome, limiter.OutcomeDenied, "the outcome of a page")
	post("/other", http.Header{"Content-Length": {"0"}})
	assert.Equal(t, post("/login?email=x", nil).Outcome, limiter.OutcomeRejected, "the outcome of a parameter that conflicts")
	const so = ", which a log lacks, so that they were played as without one: "
	assert.Equal(t, strings.Join(r.Warnings(), "\n"), strings.Join([]string{
		"policy account: requests whose body its key would go by" + so + "4",
		"policy by-address: requests whose body its key would go by" + so + "1",
		"policy skipped: requests whose body its key would go by" + so + "1",
		"policy large: requests whose body its match would go by" + so + "1",
		"policy expression: requests whose body its match would go by" + so + "1",
		"policy pages: requests whose body its match would go by" + so + "1",
		"policy tokens: requests whose body its limit and weight would go by" + so + "1",
		"policy calls: requests whose body its weight would go by" + so + "1",
	}, "\n"), "the warnings")
}

// TestReplay_bodies_in_bounds plays many requests: what is kept of one for the placeholders does not stay.
func TestReplay_bodies_in_bounds(t *testing.T) {
	r := simulateCaddyfile(t, bodySite)
	e := visitOf("h")
	e.Method, e.URI = "POST", "/other"
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	r.Play(e)
	first := held()
	for range 20_000 {
		r.Play(e)
	}
	later := held()
	assert.ErrorIf(t, later > first+1<<20, "%d bytes after one request, later %d", first, later)
	runtime.KeepAlive(r)
}
