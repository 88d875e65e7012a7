package redisratelimit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// TestReplay_enforce denies the clients that nodes deny, and counts the others as a dry run.
func TestReplay_enforce(t *testing.T) {
	r := simulateCaddyfile(t, ":8080 {\nredis_ratelimit {client_ip} 1 1h {\nname rolled\nenforce 25%\n}\n}\n")
	h := newHandler(t, `{"policies":[{"name":"rolled","limit":1,"window":"1h","enforce":25}]}`)
	denied := 0
	for i := range 100 {
		entry := visitOf("h")
		entry.Client = fmt.Sprintf("192.0.2.%d", i)
		r.Play(entry)
		v := r.Play(entry)
		enforced := h.limiter.Rules.Rules[0].Enforces(limiter.EncodeKey(entry.Client))
		want := replay.Allowed
		if enforced {
			want, denied = replay.Denied, denied+1
		}
		if v.Outcome != want || len(v.Decisions) != 1 || !v.Decisions[0].Denied || v.Decisions[0].DryRun == enforced {
			t.Errorf("%s: got %+v, want %s", entry.Client, v, want)
		}
	}
	redistest.ErrorIf(t, denied < 10 || denied > 40, "%d of 100 clients are limited, want about 25", denied)
	p := r.Policies()[0]
	redistest.ErrorIf(t, p.DryRun || !slices.Contains(p.Options(), "enforce 25%"), "got the policy %+v", p)
}

// TestReplay_usage has looks at a usage page in the log: they meet no policy.
func TestReplay_usage(t *testing.T) {
	r := simulateCaddyfile(t, ":8080 {\nredis_ratelimit same 2 1h {\nname a\nusage /quota\n}\n}\n")
	for i, want := range []replay.Outcome{replay.Unlimited, replay.Allowed, replay.Unlimited, replay.Allowed, replay.Unlimited, replay.Denied} {
		entry := visitOf("h")
		if entry.Method = "GET"; i%2 == 0 {
			entry.URI = "/Quota?x=y"
		}
		v := r.Play(entry)
		redistest.ErrorIf(t, v.Outcome != want, "request %d: got %+v, want %s", i, v, want)
	}
}
