package admin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// sites is a site with three policies by other keys than one another, in directives of which one is for a path: the address, a
// header, and a path with an exempt client. The policy tried is a dry run in a directive of its own.
const sites = `:{$PORT} {
	route /tried* {
		redis_ratelimit { policy tried { key {client_ip}; limit 50; window 24h; dry_run } }
	}
	route /users* {
		redis_ratelimit { policy users { key {header.X-Key}; limit 50; window 24h; on_empty_key skip } }
	}
	route /exempt* {
		redis_ratelimit { exempt 203.0.113.0/24; policy pages { key {path}; match path /exempt/x; limit 50; window 24h } }
	}
	route /pre* {
		redis_ratelimit { usage /pre/usage; policy api { key {client_ip}; limit 50; window 24h } }
	}
	route /mixed* {
		redis_ratelimit {
			policy dry { key {header.X-Key} ; limit 50; window 24h; dry_run }
			policy wet { key {client_ip}:{path}; limit 50; window 24h }
		}
	}` + caddytest.ShowDecision + "\n}"

// reached are paths of the site that a directive with an enforced policy covers, with the header of a key that the policy knows.
var reached = []string{"/users", "/exempt/x", "/exempt/other", "/pre", "/pre/usage", "/mixed"}

// blocked checks whether all directives refuse an address.
func blocked(t *testing.T, n *caddytest.Node, address string, want bool) {
	t.Helper()
	for _, path := range reached {
		a := n.Get(t, path, "X-Key: vip", "X-Forwarded-For: "+address)
		if got := a.Body == "denied override"; got != want {
			t.Errorf("%s at %s: got %v; want a refusal: %v", address, path, a, want)
		}
	}
}

// TestEverywhere_blocks blocks an address at directives of any keys, before exempt, the usage page and exemptions.
func TestEverywhere_blocks(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]string{"in process": "", "on Redis": caddytest.PatientRedis(redistest.Start(t))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := caddytest.Start(t, caddytest.ConfigWithSites(option+behindProxy, sites))
			override := func(args ...string) caddytest.Ending { return n.Ratelimit(t, append([]string{"override"}, args...)...) }
			blocked(t, n, "203.0.113.7", false)
			override("--key", "203.0.113.7", "--block", "--for", "2h", "--note", "scrapes").Want(t, 0,
				"policy      (all)\n", "clients     one\n", "key         203.0.113.7\n", "override    block\n", "note        scrapes\n",
				"directives  0: no directive covers a whole site\n")
			blocked(t, n, "203.0.113.7", true)
			blocked(t, n, "::ffff:203.0.113.7", true)
			blocked(t, n, "203.0.113.8", false)
			from(t, n, "/", "203.0.113.7", "{http.redis_ratelimit.decision} {http.redis_ratelimit.source}") // no directive covers it
			a := from(t, n, "/mixed", "203.0.113.7", "denied override")
			assert.ErrorIf(t, a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "", "got %v; want the wait until the end", a)
			n.CheckMetric(t, "blocked_total", float64(2*len(reached)+1))
			n.CheckMetric(t, `decisions_total{decision="denied",policy="wet",source="override"}`, 3)
			n.Override(t, 200, `{"policy":"api","key":"203.0.113.7","exempt":true}`).Want(t, 0, "*a block for all policies goes on, of 203.0.113.7/32*")
			blocked(t, n, "203.0.113.7", true)
			n.Override(t, 200, `{"policy":"api","key":"203.0.113.7","remove":true}`)

			from(t, n, "/tried", "203.0.113.7", "allowed ")
			n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="tried",source="override"}`, 1)

			override("--key", "203.0.113.7", "--remove").Want(t, 0, "override removed\n")
			override("--key", "203.0.113.7", "--remove").Want(t, 2, "no such override for all policies; one of a single policy needs its name")
			blocked(t, n, "203.0.113.7", false)
			override("--range", "2001:db8:7::/48", "--block").Want(t, 0, "clients     range\n", "range       2001:db8:7::/48\n")
			blocked(t, n, "2001:db8:7:1::5", true)
			blocked(t, n, "2001:db8:8::5", false)
			n.CheckMetric(t, "overrides", 1)
		})
	}
}

// TestEverywhere_shown asks all commands of an address that is blocked for all policies.
func TestEverywhere_shown(t *testing.T) {
	n := caddytest.Start(t, caddytest.ConfigWithSites(behindProxy, sites))
	n.Override(t, 200, `{"key":"203.0.113.7","block":true,"note":"n"}`).Want(t, 0, `*{"key":"203.0.113.7","block":true,"note":"n","directives":0*`)
	n.Override(t, 200, `{"range":"2001:db8::5","block":true}`).Want(t, 0, `*{"key":"2001:db8::5","block":true*`)
	n.Override(t, 200, `{"range":"198.51.100.0/24","block":true}`)
	n.Ratelimit(t, "overrides").Want(t, 0, "(all)   range    198.51.100.0/24  block", "(all)   one      2001:db8::5      block", "(all)   one      203.0.113.7      block     it is removed  n")
	n.Ask(t, http.MethodGet, "overrides", "").Want(t, 200, `*{"range":"198.51.100.0/24","block":true}*{"key":"203.0.113.7","block":true,"note":"n"}*`)
	n.Ratelimit(t, "explain", "--client-ip", "203.0.113.7", "--url", n.URL+"/users", "-H", "X-Key: vip").Want(t, 4, "denied", "blocked", "block for 203.0.113.7 in all policies", "users   %ip:203.0.113.7")
	n.Ratelimit(t, "explain", "--client-ip", "203.0.113.7", "--url", n.URL+"/pre/usage").Want(t, 4, "blocked")
	n.Ratelimit(t, "explain", "--client-ip", "203.0.113.7", "--url", n.URL+"/tried").Want(t, 0, "blocked (dry run)")
	n.Ratelimit(t, "explain", "--client-ip", "203.0.113.7", "--url", n.URL+"/").Want(t, 0, "no policy is met")
	n.Ratelimit(t, "state", "--policy", "api", "--key", "203.0.113.7").Want(t, 0, "remaining    0\n", "source       override", "override     block for 203.0.113.7 in all policies, until it is removed")
	n.Ratelimit(t, "state", "--policy", "api", "--key", "2001:db8::/64").Want(t, 0, "some addresses of this key are blocked, by the range 2001:db8::5/128")
	n.Ratelimit(t, "reset", "--policy", "api", "--key", "198.51.100.7").Want(t, 0, "a block for all policies goes on, of 198.51.100.0/24")
	n.Ratelimit(t, "reset", "--policy", "api", "--key", "192.0.2.1").Want(t, 0, "0 quotas reset")
	n.Ratelimit(t, "override", "--policy", "api", "--key", "203.0.113.7", "--remove").Want(t, 2, "a block for all policies: remove that one without a policy")
	from(t, n, "/users", "203.0.113.7", "denied override")
	n.Ratelimit(t, "top").Want(t, 0, "%ip:203.0.113.7")
	n.Ask(t, http.MethodGet, "page", "").Want(t, 200, `*"key":"%ip:203.0.113.7","denied":1,"error":0,"why":"blocked","override":{"key":"203.0.113.7","block":true,"note":"n"}}*`)
	n.Override(t, 200, `{"key":"%ip:203.0.113.7","remove":true}`)
	n.Override(t, 200, `{"key":"198.51.100.0/24","remove":true}`) // as top has networks
	n.Override(t, 200, `{"key":"2001:db8::5","block":true,"for":"1h"}`).Want(t, 0, "*its network is 2001:db8::/64; write --range to block it*")
	n.Override(t, 200, `{"key":"2001:db8::/64","block":true}`)
	n.Ratelimit(t, "override", "--key", "2001:db8::5", "--remove").Want(t, 0, "override removed\n", "still blocked, by 2001:db8::/64")
	n.Override(t, 200, `{"range":"2001:db8::/64","remove":true}`)
	n.Ratelimit(t, "overrides").Want(t, 0, "no overrides")
	assert.ErrorIf(t, strings.Contains(n.Log.String(), "203.0.113.7\",\"block") || strings.Contains(n.Log.String(), "2001:db8"), "an address of an override is in the log")
}

// TestEverywhere_refused sends what is wrong, and spellings of addresses that others may read as another one. Nothing is blocked.
func TestEverywhere_refused(t *testing.T) {
	n := caddytest.Start(t, caddytest.ConfigWithSites(behindProxy, sites))
	for _, test := range []struct{ fields, says string }{
		{`"key":"203.0.113.7"`, "policy is missing; without it only block of an address or a range works"},
		{`"key":"203.0.113.7","limit":5`, "policy is missing; without it only block"},
		{`"key":"203.0.113.7","exempt":true`, "policy is missing"},
		{`"key":"203.0.113.7","unban":true`, "policy is missing"},
		{`"all":true,"block":true`, "without policy this would refuse everyone; name the policy"},
		{`"all":true,"remove":true`, "policy is missing"},
		{`"block":true`, "key, range, all"},
		{`"key":"203.0.113.7","range":"203.0.113.0/24","block":true`, "key, range, all"},
		{`"key":"203.0.113.7","block":true,"remove":true`, "there are 2"},
		{`"key":"acme","block":true`, "key: without policy write an address such as 203.0.113.7, or name the policy"},
		{`"key":"","block":true`, "write an address"},
		{`"key":"*","block":true`, "write an address"},
		{`"key":"203.0.113.*","block":true`, "write an address"},
		{`"key":" 203.0.113.7","block":true`, "write an address"},
		{`"key":"203.0.113.7\\x00","block":true`, "write an address"},
		{`"key":"203.0.113.007","block":true`, "write an address"},
		{`"key":"0313.0.113.7","block":true`, "write an address"},
		{`"key":"203.0.113","block":true`, "write an address"},
		{`"key":"3405803783","block":true`, "write an address"},
		{`"key":"203.0.113.7:443","block":true`, "write an address"},
		{`"key":"[2001:db8::5]","block":true`, "write an address"},
		{`"key":"[2001:db8::5]:443","block":true`, "write an address"},
		{`"key":"fe80::1%eth0","block":true`, "write an address"},
		{`"key":"２０３.0.113.7","block":true`, "write an address"},
		{`"key":"203.0.113.7/024","block":true`, "write an address"},
		{`"key":"::ffff:203.0.113.0/120","block":true`, "write an address"},
		{`"key":"203.0.113.7/24","block":true`, "write one address, or the network as a range"},
		{`"key":"203.0.113.7","block":true,"for":"0s"}`, "JSON"},
		{`"key":"203.0.113.7","block":true,"for":"0s"`, "from 1s"},
		{`"key":"203.0.113.7","remove":true,"for":"1h"`, "for: remove"},
		{`"key":"203.0.113.7","block":true,"burst":5`, "burst: give the limit too"},
		{`"key":"203.0.113.7","block":true,"note":"` + strings.Repeat("n", 257) + `"`, "257 bytes"},
		{`"range":"203.0.113.0/33","block":true`, "CIDR form"},
		{`"range":"0.0.0.0/0","block":true`, "/0 is a large part"},
		{`"range":"16.0.0.0/7","block":true`, "/7 is a large part"},
		{`"key":"16.0.0.0/7","block":true`, "/7 is a large part"},
		{`"range":"2000::/15","block":true`, "/15 is a large part"},
		{`"range":"127.0.0.0/8","block":true`, "the address that asks is among these; give force"},
		{`"key":"127.0.0.1","block":true`, "the address that asks is among these"},
		{`"key":"::ffff:127.0.0.1","block":true`, "the address that asks is among these"},
		{`"asker":"1.2.3.4","key":"127.0.0.1","block":true`, "unknown field"},
		{`"policy":null,"key":"203.0.113.7","block":true`, "null"},
	} {
		n.Override(t, 400, `{`+test.fields+`}`).Want(t, 0, "*"+test.says+"*")
	}
	n.Override(t, 404, `{"key":"203.0.113.7","remove":true}`)
	n.Override(t, 404, `{"range":"0.0.0.0/0","remove":true}`) // needs no force
	n.Override(t, 404, `{"key":"127.0.0.1","remove":true}`)
	n.Ratelimit(t, "overrides").Want(t, 0, "no overrides")
	for _, test := range []struct{ text, says string }{
		{"--key acme --block", "key acme: without --policy write an address such as 203.0.113.7, or name the policy"},
		{"--key 203.0.113.7 --limit 5", "--policy is missing; without it only --block of an address or a range works"},
		{"--all --block", "--all --block without --policy would refuse everyone; name the policy"},
		{"--all --remove", "--policy is missing"},
		{"--block", "use --key for one client"},
		{"--key 203.0.113.7", "use one of --limit"},
	} {
		n.Ratelimit(t, append([]string{"override"}, strings.Fields(test.text)...)...).Want(t, 1, test.says)
	}
	n.Ratelimit(t, "override", "--policy", "", "--key", "203.0.113.7", "--block").Want(t, 2, "policy: name one, or leave it out")
	assert.ErrorIf(t, strings.Contains(n.Log.String(), "acme"), "a key is in the log")
	n.Ratelimit(t, "override", "--range", "127.0.0.0/8", "--block", "--force").Want(t, 0, "range       127.0.0.0/8\n")
	n.Ratelimit(t, "override", "--key", "2001:DB8:0:0::5", "--block").Want(t, 0, "key         2001:db8::5\n", "Hint: its network is 2001:db8::/64; write --range to block it")
	n.Ratelimit(t, "override", "--key", "::ffff:203.0.113.7", "--block").Want(t, 0, "key         203.0.113.7\n")
	n.Ratelimit(t, "override", "--key", "10.0.0.7", "--block").Want(t, 0, "Hint: all clients behind a proxy that is not trusted have its address\n")
	blocked(t, n, "203.0.113.7", true)
	blocked(t, n, "2001:db8::5", true)
	blocked(t, n, "2001:db8::6", false)
}

// TestEverywhere_reach counts the directives that no matcher keeps requests from.
func TestEverywhere_reach(t *testing.T) {
	for site, want := range map[string]string{
		"redis_ratelimit {client_ip} 5 24h":                                                        "1 without a matcher",
		"redis_ratelimit /api/* {client_ip} 5 24h":                                                 "0: no directive",
		"route { redis_ratelimit {client_ip} 5 24h }":                                              "1 without a matcher",
		"route /x { redis_ratelimit {client_ip} 5 24h }":                                           "0: no directive",
		"handle /x { respond x }; handle { redis_ratelimit {client_ip} 5 24h }":                    "0: no directive",
		"handle_errors { redis_ratelimit {client_ip} 5 24h }":                                      "0: no directive",
		"redis_ratelimit {client_ip} 5 24h { name a } redis_ratelimit {header.X} 5 24h { name b }": "2 without a matcher",
		"invoke limits": "1 without a matcher",
		"redis_ratelimit { policy a { key {path}; limit 5; window 1h; dry_run } }": "all policies are dry runs: no request is refused",
	} {
		n := caddytest.Start(t, caddytest.ConfigWithSites("", "&(limits) { redis_ratelimit {client_ip} 5 24h }\n:{$PORT} {\n"+site+"\n}"))
		n.Ratelimit(t, "override", "--key", "203.0.113.7", "--block").Want(t, 0, want)
	}
}

// TestEverywhere_hashed has the answer say that an address is not hidden.
func TestEverywhere_hashed(t *testing.T) {
	t.Parallel()
	option := strings.Replace(caddytest.SharedRedis(t), "timeout", "hash_keys secret\ntimeout", 1)
	n := caddytest.Start(t, caddytest.ConfigWithSites(option+behindProxy, sites))
	n.Ratelimit(t, "override", "--key", "203.0.113.7", "--block").Want(t, 0, "Hint: what is blocked lies in redis in the clear, although hash_keys hides keys\n")
	blocked(t, n, "203.0.113.7", true)
	n.Ratelimit(t, "overrides").Want(t, 0, "(all)   one      203.0.113.7")
	n.Ratelimit(t, "override", "--key", "203.0.113.7", "--remove").Want(t, 0, "override removed\n")
}

// TestOverride_star has a key with a star told to be one key.
func TestOverride_star(t *testing.T) {
	n := caddytest.InProcess(t, overridden)
	const says = "the star is literal: this is one key, and no pattern"
	n.Ratelimit(t, "override", "--policy", "api", "--key", "stg-*", "--block").Want(t, 0, "key       stg-*\n", "Hint: "+says)
	want(t, n, "/", "stg-1", "allowed memory")
	want(t, n, "/", "stg-*", "denied override")
	n.Ratelimit(t, "state", "--policy", "api", "--key", "stg-*").Want(t, 0, says)
	n.Ratelimit(t, "reset", "--policy", "api", "--key", "stg-*").Want(t, 0, says+"; an override goes on to block this key")
	n = caddytest.Start(t, caddytest.Config("", "redis_ratelimit {client_ip} 2 24h {\nname api\n}"))
	n.Ratelimit(t, "override", "--policy", "api", "--key", "203.0.113.*", "--block").Want(t, 2, "A star is literal, and no pattern.")
}
