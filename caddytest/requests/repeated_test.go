package requests

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestRepeated_inKeys has clients that send the value of a key several times, of which a backend reads one.
func TestRepeated_inKeys(t *testing.T) {
	t.Parallel()
	requests := map[string]struct {
		path    string
		headers []string
	}{
		"{header.X-Key}":       {"/", []string{"X-Key: acme", "X-Key: fresh"}},
		"{header.X-Key}-{uri}": {"/", []string{"X-Key: acme", "X-Key: fresh"}},
		"{cookie.session}":     {"/", []string{"Cookie: SESSION=fresh; session=acme"}},
		"{query.token}":        {"/?token=acme&token=fresh", nil},
	}
	for key, request := range requests {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			for mode, want := range map[string][]int{"client_ip": {200, 429}, "skip": {400, 400}, "reject": {400, 400}} {
				n := caddytest.Start(t, caddytest.Config("", "redis_ratelimit "+key+" 1 24h {\nname keyed\non_empty_key "+mode+"\n}\nrespond ok"))
				for i, status := range want {
					fresh := strings.NewReplacer("fresh", "fresh"+strings.Repeat("x", i))
					var headers []string
					for _, header := range request.headers {
						headers = append(headers, fresh.Replace(header))
					}
					if a := n.Get(t, fresh.Replace(request.path), headers...); a.Status != status {
						t.Errorf("%s: request %d got %v; want %d", mode, i, a, status)
					}
				}
				n.CheckMetric(t, `invalid_values_total{option="key",policy="keyed"}`, 2)
				if complaints := n.Log.Lines(func(l caddytest.LogLine) bool { return caddytest.Ours(l) && strings.Contains(l.Text, "fresh") }); len(complaints) > 0 {
					t.Errorf("%s: the log has the value: %v", mode, complaints)
				}
			}
		})
	}
}

// TestRepeated_numbers has clients that send a number several times: the fallback counts.
func TestRepeated_numbers(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", `redis_ratelimit {
		name numbers
		key {path}
		limit {query.limit} 100
		window 24h
		weight {cookie.cost} 50
	}
	redis_ratelimit {
		name charged
		key {path}
		limit 100
		window 24h
		cost {header.X-Cost} 30
		headers off
	}`+caddytest.ShowDecision))
	caddytest.CheckQuota(t, n.Get(t, "/a?limit=60&limit=70", "Cookie: COST=1; cost=2", "X-Cost: 1"), 100, 50)
	caddytest.CheckQuota(t, n.Get(t, "/b?limit=60", "Cookie: cost=2", "X-Cost: 1", "X-Cost: 2"), 60, 58)
	for _, series := range []string{`option="limit",policy="numbers"`, `option="weight",policy="numbers"`, `option="cost",policy="charged"`} {
		n.CheckMetric(t, "invalid_values_total{"+series+"}", 1)
	}
	if e := n.Explain(t, "/?limit=1&limit=2", ""); e.Policies[0].Limit != 100 {
		t.Errorf("explain shows the limit %d; want the fallback", e.Policies[0].Limit)
	}
}
