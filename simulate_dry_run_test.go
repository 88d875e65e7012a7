package redisratelimit

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// TestReplay_dry_run_refuses_nothing has a dry-run policy that would answer with an error.
func TestReplay_dry_run_refuses_nothing(t *testing.T) {
	for name, more := range map[string]string{
		"empty key":   "on_empty_key reject\npolicy a {\nkey {header.X-Key}\nlimit 1\nwindow 1h\ndry_run\n}",
		"every one":   "on_empty_key reject\ndry_run\npolicy a {\nkey {header.X-Key}\nlimit 1\nwindow 1h\n}",
		"its matcher": "policy a {\nlimit 1\nwindow 1h\ndry_run\nmatch {\nexpression `int({query.n}) > 1`\n}\n}",
	} {
		t.Run(name, func(t *testing.T) {
			r := simulateCaddyfile(t, ":8080 {\nredis_ratelimit {\n"+more+"\n}\nredis_ratelimit same 2 1h {\nname b\n}\n}\n")
			for i, want := range []replay.Outcome{replay.Allowed, replay.Allowed, replay.Denied} {
				if v := r.Play(visitOf("h")); v.Outcome != want {
					t.Errorf("request %d: got %+v, want %s", i, v, want)
				}
			}
			alone := simulateCaddyfile(t, ":8080 {\nredis_ratelimit {\n"+more+"\n}\n}\n")
			if v := alone.Play(visitOf("h")); v.Outcome != replay.Allowed {
				t.Errorf("alone: got %+v, want allowed", v)
			}
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
		} {
			t.Run(name+"/"+option, func(t *testing.T) {
				r := simulateCaddyfile(t, ":8080 {\n"+fmt.Sprintf(site, option)+"\n}\n")
				e := visitOf("h")
				e.Status, e.Size = http.StatusUnauthorized, 5
				for range 10 {
					r.Play(e)
				}
				if got := 1000 - r.Remaining("p", "same"); got != want {
					t.Errorf("%d units are used, want %d", got, want)
				}
			})
		}
	}
}
