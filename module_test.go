package redisratelimit

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// TestHandler_of_JSON_is_refused_by_the_name_of_what_is_wrong has what no Caddyfile can say.
func TestHandler_of_JSON_is_refused_by_the_name_of_what_is_wrong(t *testing.T) {
	ctx, end := newContext(t, "")
	defer end()
	for text, want := range refused(t, "refused_json.txt") {
		_, err := ctx.LoadModuleByID("http.handlers.redis_ratelimit", json.RawMessage(text))
		redistest.ErrorIf(t, err == nil || !strings.Contains(err.Error(), want), "%s: got error %v, want one with %q", text, err, want)
	}
}

// TestHandler_of_JSON_is_refused_for_its_prefix has a prefix that no handler can have, and a policy that
// another handler has too.
func TestHandler_of_JSON_is_refused_for_its_prefix(t *testing.T) {
	ctx, end := newContext(t, "")
	defer end()
	loadHandler(t, ctx, policyJSON("prefixed", "5"))
	for _, text := range []string{`"ipv4_prefix":33`, `"ipv4_prefix":-1`, `"ipv6_prefix":129`, `"ipv6_prefix":-1`} {
		for _, before := range []string{`{"policies"`, `{"name"`} {
			_, err := ctx.LoadModuleByID("http.handlers.redis_ratelimit", json.RawMessage(strings.Replace(policyJSON("prefixed", "5"), before, "{"+text+","+before[1:], 1)))
			want := strings.NewReplacer(`"`, "", ":", " ").Replace(text) + ": use a number"
			redistest.ErrorIf(t, err == nil || !strings.Contains(err.Error(), want), "got %v; want an error with %q", err, want)
		}
	}
}

// TestHandler_of_JSON_fills_policies has options of a handler that one of its policies has too.
func TestHandler_of_JSON_fills_policies(t *testing.T) {
	h := newHandler(t, `{"ipv4_prefix":24,"on_empty_key":"skip","dry_run":true,"policies":[
		{"name":"own","limit":5,"window":"24h","ipv4_prefix":0,"ipv6_prefix":128,"on_empty_key":"client_ip"},
		{"name":"filled","limit":5,"window":"24h"}]}`)
	for i, want := range []struct {
		prefixes rule.Prefixes
		empty    rule.EmptyKey
	}{{rule.Prefixes{IPv4: 0, IPv6: 128}, rule.EmptyKeyClientIP}, {rule.Prefixes{IPv4: 24, IPv6: 64}, rule.EmptyKeySkip}} {
		if r := &h.limiter.Rules.Rules[i]; r.Key.Prefixes() != want.prefixes || r.OnEmptyKey != want.empty || !r.DryRun {
			t.Errorf("policy %s: got %+v, %s and dry run %t", r.Policy.Name(), r.Key.Prefixes(), r.OnEmptyKey, r.DryRun)
		}
	}
}

// TestHandler_Provision_again has a handler that a second configuration uses.
func TestHandler_Provision_again(t *testing.T) {
	h := new(Handler)
	redistest.Must(t, json.Unmarshal([]byte(policyJSON("again", "5")), h))
	for range 2 {
		ctx := lastingContext(t, "")
		redistest.Must(t, h.Provision(ctx))
		if len(h.limiter.Counters) != len(h.limiter.Rules.Rules) {
			t.Errorf("%d counters of %d rules", len(h.limiter.Counters), len(h.limiter.Rules.Rules))
		}
	}
}

func TestHandler_of_JSON_takes_null_for_what_is_left_out(t *testing.T) {
	h := newHandler(t, `{"policies":[{"name":null,"key":null,"algorithm":null,"weight":null,"match":null,"count_if":null,"max_delay":null,"limit":5,"window":"24h"}],
		"status":null,"ipv4_prefix":null,"ipv6_prefix":null,"exempt":null,"headers":null,"retry_jitter":null,"fail_mode":null}`)
	redistest.ErrorIf(t, h.Status != 429 || *h.IPv4Prefix != 32 || h.Policies[0].Key != defaultKey, "got the handler %+v", *h)
}

// TestReserve_UnmarshalJSON reads units as a number or as text, and percent.
func TestReserve_UnmarshalJSON(t *testing.T) {
	for text, want := range map[string]Reserve{`20`: "20", `"20"`: "20", `"20%"`: "20%", `0`: "0", `1.5`: "1.5", `-1`: "-1"} {
		var p Policy
		err := json.Unmarshal([]byte(`{"reserve":`+text+`}`), &p)
		redistest.ErrorIf(t, err != nil || p.Reserve != want, "%s is %q, %v; want %q", text, p.Reserve, err, want)
	}
	for _, text := range []string{`true`, `[20]`, `{"units":20}`} {
		err := json.Unmarshal([]byte(`{"reserve":`+text+`}`), new(Policy))
		redistest.ErrorIf(t, err == nil, "%s is taken", text)
	}
}
