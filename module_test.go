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
	for text, want := range map[string]string{
		`{"policies":null}`:                                                                "policies: name at least one",
		`{"policies":[null]}`:                                                              "policies[0]: null",
		`{"policies":[{"limit":5,"window":"24h"},null]}`:                                   "policies[1]: null",
		`{"policies":[{"limit":null,"window":"24h"}]}`:                                     "limit: missing",
		`{"policies":[{"limit":5,"window":"24h","match":[{"path":null}]}]}`:                "match: ",
		`{"policies":[{"limit":5,"window":"24h","count_if":{}}]}`:                          "count_if: empty",
		`{"policies":[{"limit":5,"window":"24h","reserve":5}]}`:                            "reserve 5: 5 of 5 units stay for others",
		`{"policies":[{"limit":5,"window":"24h","time_zone":"UTC"}]}`:                      "time_zone UTC: only a calendar has one",
		`{"policies":[{"limit":5,"window":"24h","reserve":1.5}]}`:                          "reserve 1.5: use a whole number",
		`{"policies":[{"window":"24h","unlimited":true}]}`:                                 "unlimited: needs a placeholder",
		`{"policies":[{"limit":5,"limit_from":"{q}","window":"24h","unlimited":true}]}`:    "limit 5: requests without a limit are unlimited",
		`{"policies":[{"max_concurrent":5,"max_concurrent_from":"{q}","unlimited":true}]}`: "max_concurrent 5: requests without a limit are unlimited",
		`{"policies":[{"max_concurrent_from":"{q}"}]}`:                                     "max_concurrent: missing; say how many units, from 1",
		`{"policies":[{"max_concurrent":-1}]}`:                                             "max_concurrent -1: use a whole number from 1 to 1000000000",
		`{"policies":[{"max_concurrent":5,"limit_from":"{q}"}]}`:                           "limit, max_concurrent: a request counts from its start to its end",
		`{"policies":[{"max_concurrent_from":"{q}","limit":5,"window":"24h"}]}`:            "max_concurrent: missing",
		`{"policies":[{"max_concurrent":5,"limit_from":"{q}","unlimited":true}]}`:          "limit, max_concurrent: a request counts from its start to its end",
		`{"policies":[{"limit":5,"window":"24h","count_if":{"status_code":[null]}}]}`:      "count_if: status 0",
		`{"policies":[{"limit":5,"window":"24h","count_if":{"status_code":[401,700]}}]}`:   "count_if: status 700",
		`{"policies":[{"limit":5,"window":"24h","count_if":{"status_code":[4,6]}}]}`:       "count_if: status 6",
		`{"policies":[{"limit":5,"window":"24h","enforce":-0.5}]}`:                         "enforce -0.5%: use a percentage from 0% to 100%",
		`{"policies":[{"limit":5,"window":"24h","enforce":1e300}]}`:                        "%: use a percentage from 0% to 100%",
		`{"policies":[{"limit":5,"window":"24h","enforce":100,"dry_run":true}]}`:           "enforce, dry_run: a dry run limits no key",
		`{"policies":[{"limit":5,"window":"24h","enforce":0}],"dry_run":true}`:             "enforce, dry_run: a dry run limits no key",
		`{"policies":[{"limit":5,"window":"24h","notify":[50,null]}]}`:                     "notify 0%: use a percentage above 0%",
		`{"policies":[{"limit":5,"window":"24h","notify":[99.99999]}]}`:                    "notify 99.99999%: use at most four decimals",
		`{"policies":[{"limit":5,"window":"24h"}],"usage":"quota"}`:                        "usage quota: use one path",
		`{"policies":[{"limit":5,"window":"24h"}],"usage":" /quota"}`:                      "usage  /quota: use one path",
		`{"policies":[{"limit":5,"window":"24h"}],"usage":"/a/../quota"}`:                  "usage /a/../quota: no request has this path; write it without /./ and /../",
		`{"policies":[{"limit":5,"window":"24h"}],"exempt":[null]}`:                        "exempt : use",
		`{"policies":[{"limit":5,"window":"24h"}],"headers":[null]}`:                       "headers : use",
		`{"policies":[{"limit":5,"window":"24h"}],"retry_jitter":-1}`:                      "retry_jitter -1ns: use a duration from 0 to 24h",
		`{"policies":[{"limit":5,"window":"24h"}],"retry_jitter":"24h1ns"}`:                "retry_jitter 24h0m0.000000001s: use a duration from 0 to 24h",
	} {
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
		ctx, end := newContext(t, "")
		t.Cleanup(end)
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

func TestApp_of_JSON_is_refused_by_the_name_of_what_is_wrong(t *testing.T) {
	for text, want := range map[string]string{
		`{"redis":{"addresses":null}}`:                              "address: name at least one",
		`{"redis":{"addresses":[null]}}`:                            `address: use host:port`,
		`{"redis":{"url":null,"tls":null}}`:                         "address: name at least one",
		`{"redis":{"url":"redis://127.0.0.1:1","pool_size":65536}}`: "pool_size 65536: use a whole number from 1 to 65535",
		`{"memory":{"max_keys":2147483648}}`:                        "max_keys 2147483648: use a whole number from 1 to 2147483647",
		`{"memory":{"max_keys":-1}}`:                                "max_keys -1: use a whole number from 1",
		`{"timeout":"24h1ns"}`:                                      "timeout 24h0m0.000000001s: use a duration from 100us to 24h",
		`{"deny_cache":"2562047h"}`:                                 "deny_cache 2562047h0m0s: use off",
	} {
		ctx, end := newContext(t, text)
		_, err := loadApp(ctx)
		redistest.ErrorIf(t, err == nil || !strings.Contains(err.Error(), want), "%s: got error %v, want one with %q", text, err, want)
		end()
	}
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
