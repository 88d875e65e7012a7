package redisratelimit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

// TestReplay_reserve replays exports that leave two of five units to others.
func TestReplay_reserve(t *testing.T) {
	const policy = "name api\nkey all\nlimit 5\nwindow 1h\n"
	r := simulateCaddyfile(t, ":8080 {\n@export path /export\nredis_ratelimit @export {\n"+policy+"reserve 40%\n}\n@rest not path /export\nredis_ratelimit @rest {\n"+policy+"}\n}\n")
	export, checkout := visitOf("h"), visitOf("h")
	export.URI, checkout.URI = "/export", "/checkout"
	for i := range 8 {
		e, want := export, replay.Allowed
		if i >= 5 {
			e = checkout
		}
		if i == 3 || i == 4 || i == 7 {
			want = replay.Denied
		}
		v := r.Play(e)
		if v.Outcome != want || len(v.Decisions) != 1 || (v.Decisions[0].Reserve == 2) != (i < 5) {
			t.Errorf("request %d: got %+v, want %s", i, v, want)
		}
	}
	options := r.Policies()[0].Options()
	redistest.ErrorIf(t, !strings.Contains(fmt.Sprint(options), "reserve 40%"), "the options are %v", options)
}

// TestReplay_unlimited replays requests whose limits are unlimited, 0 and numbers.
func TestReplay_unlimited(t *testing.T) {
	for dryRun, outcomes := range map[string][]replay.Outcome{
		"":        {replay.Unlimited, replay.Denied, replay.Allowed, replay.Denied},
		"dry_run": {replay.Unlimited, replay.Allowed, replay.Allowed, replay.Allowed},
	} {
		r := simulateCaddyfile(t, ":8080 {\nredis_ratelimit {\nname api\nkey all\nlimit {query.l} unlimited\nwindow 1h\n"+dryRun+"\n}\n}\n")
		for i, limit := range []string{"", "0", "1", "1"} {
			e := visitOf("h")
			e.URI = "/?l=" + limit
			v := r.Play(e)
			decided := len(v.Decisions) == 1 && v.Decisions[0].Denied == (i == 1 || i == 3)
			redistest.ErrorIf(t, v.Outcome != outcomes[i] || decided != (i > 0), "%s: limit %q: got %+v, want %s", dryRun, limit, v, outcomes[i])
		}
		if p := r.Policies()[0]; p.Limit != 0 || !p.Unlimited || p.LimitText() != "{query.l}, else unlimited" && p.LimitText() != "{http.request.uri.query.l}, else unlimited" {
			t.Errorf("the policy is %+v, its limit %s", p, p.LimitText())
		}
	}
}
