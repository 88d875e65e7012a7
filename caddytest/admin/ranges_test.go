package admin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// rangedSite has policies by the address alone, and with a path, a policy by a header, and one in dry run.
const rangedSite = `redis_ratelimit {
		exempt 192.0.2.66
		policy api { key {client_ip}; limit 5; window 24h }
		policy pair { key {client_ip}:{path}; match path /pair; limit 5; window 24h }
		policy users { key {header.X-Key}; match path /users; limit 5; window 24h; on_empty_key skip }
		policy tried { key {client_ip}; match path /tried; limit 5; window 24h; dry_run }
		policy peer { key {remote_host}; match path /peer; limit 5; window 24h }
	}` + caddytest.ShowDecision

// from is the decision about a request of a client.
func from(t *testing.T, n *caddytest.Node, path, address, want string) caddytest.Response {
	t.Helper()
	return n.Get(t, path, "X-Forwarded-For: "+address).Want(t, 0, want)
}

// TestRange_blocks compares ranges with the address as it came, before it is cut to a prefix.
func TestRange_blocks(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		n := caddytest.Start(t, caddytest.Config(option+behindProxy, rangedSite))
		set := func(text string, more ...string) caddytest.Ending {
			return n.Ratelimit(t, append([]string{"override", "--policy", "api", "--range", text}, more...)...)
		}
		set("203.0.113.77/24", "--block", "--for", "2h", "--note", "scrapes").Want(t, 0, "clients   range", "range     203.0.113.0/24\n", "override  block\n", "note      scrapes")
		a := from(t, n, "/", "203.0.113.7", "denied override")
		assert.ErrorIf(t, a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "", "got %v; want the wait until the end", a)
		from(t, n, "/", "::ffff:203.0.113.8", "denied override")
		from(t, n, "/", "203.0.112.7", "allowed "+source)
		from(t, n, "/", "64:ff9b::203.0.113.7", "allowed "+source) // counted with the IPv4 key, blocked by its own form alone
		set("64:ff9b::/96", "--block").Want(t, 0)
		from(t, n, "/", "64:ff9b::203.0.113.7", "denied override")
		set("2001:db8::5", "--block").Want(t, 0, "range     2001:db8::5/128\n") // one host of a /64
		from(t, n, "/", "2001:db8::5", "denied override")
		from(t, n, "/", "2001:db8::6", "allowed "+source)
		n.Ratelimit(t, "state", "--policy", "api", "--key", "2001:db8::/64").Want(t, 0, "remaining    4\n", "some addresses of this key are blocked, by the range 2001:db8::5/128")
		n.Ratelimit(t, "state", "--policy", "api", "--key", "203.0.113.9").Want(t, 0, "remaining    0\n", "source       override", "override     block for 203.0.113.0/24, until ")
		n.Ratelimit(t, "explain", "--client-ip", "203.0.113.9", "--url", n.URL+"/").Want(t, 4, "blocked", "block for 203.0.113.0/24")
		n.Ask(t, http.MethodPost, "explain", `{"url":"`+n.URL+`/","client_ip":"203.0.113.9"}`).Want(t, 200, `*"override":{"policy":"api","range":"203.0.113.0/24","block":true*`)
		n.Ratelimit(t, "overrides").Want(t, 0, "api     range    203.0.113.0/24", "api     range    2001:db8::5/128")
		n.CheckMetric(t, "overrides", 3)

		n.Override(t, 200, `{"policy":"api","key":"203.0.113.7","limit":50}`)
		from(t, n, "/", "203.0.113.7", "denied override")
		n.Override(t, 200, `{"policy":"api","all":true,"exempt":true}`)
		from(t, n, "/", "203.0.113.7", "denied override")
		from(t, n, "/", "198.51.100.1", "exempt override")
		n.Override(t, 200, `{"policy":"api","key":"203.0.113.7","exempt":true}`)
		from(t, n, "/", "203.0.113.7", "exempt override") // its own goes first
		from(t, n, "/", "203.0.113.8", "denied override")
		set("2001:db8::/32", "--block").Want(t, 0)
		n.Override(t, 200, `{"policy":"api","key":"2001:db8::/64","exempt":true}`)
		from(t, n, "/", "2001:db8::6", "exempt override")
		from(t, n, "/", "2001:db8:1::6", "denied override")

		set("203.0.113.0/24", "--remove").Want(t, 0, "override removed\n")
		set("203.0.113.0/24", "--remove").Want(t, 2, "no such override")
		from(t, n, "/", "203.0.113.8", "exempt override")
		n.Override(t, 200, `{"policy":"api","range":"203.0.113.8","block":true,"for":"1s"}`)
		assert.Retry(t, "the block ends", func() (again bool, seen any) {
			a := n.Get(t, "/", "X-Forwarded-For: 203.0.113.8")
			return a.Body != "exempt override", a
		})
	})
}

// TestRange_policies blocks in policies of other keys, in dry runs, and an address that the option exempts.
func TestRange_policies(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config(behindProxy, rangedSite))
	from(t, n, "/", "192.0.2.66", "exempt ")
	n.Override(t, 200, `{"policy":"api","range":"192.0.2.0/24","block":true}`)
	from(t, n, "/", "192.0.2.66", "denied override")
	n.Override(t, 200, `{"policy":"pair","range":"198.51.100.0/24","block":true}`)
	from(t, n, "/pair", "198.51.100.7", "denied override")
	from(t, n, "/", "198.51.100.7", "allowed memory")
	n.Override(t, 200, `{"policy":"pair","key":"198.51.100.7:/pair","exempt":true}`)
	from(t, n, "/pair", "198.51.100.7", "allowed memory")
	from(t, n, "/pair", "198.51.100.8", "denied override")
	n.Ratelimit(t, "state", "--policy", "pair", "--key", "198.51.100.9:/x").Want(t, 0, "block for 198.51.100.0/24")
	n.Override(t, 200, `{"policy":"tried","range":"203.0.113.0/24","block":true}`)
	from(t, n, "/tried", "203.0.113.7", "allowed memory")
	n.CheckMetric(t, `decisions_total{decision="dry_run_denied",policy="tried",source="override"}`, 1)
	n.Override(t, 200, `{"policy":"peer","range":"127.0.0.0/8","block":true}`)
	from(t, n, "/peer", "203.0.113.7", "denied override") // the connection's address, not the one that a proxy names
	n.Override(t, 200, `{"policy":"peer","range":"127.0.0.0/8","remove":true}`)
	n.Override(t, 200, `{"policy":"peer","range":"203.0.113.0/24","block":true}`)
	from(t, n, "/peer", "203.0.113.7", "allowed memory")
	n.Override(t, 200, `{"policy":"users","key":"192.0.2.0/24","block":true}`) // a client's key, which is no range
	n.Get(t, "/users", "X-Key: 192.0.2.0/24", "X-Forwarded-For: 203.0.113.9").Want(t, 0, "denied override")
	n.Get(t, "/users", "X-Key: 192.0.2.1", "X-Forwarded-For: 203.0.113.9").Want(t, 0, "allowed memory")
}

// TestRange_refused sends what is wrong; nothing is changed by it.
func TestRange_refused(t *testing.T) {
	n := caddytest.Start(t, caddytest.Config(behindProxy, rangedSite))
	for _, test := range []struct{ fields, says string }{
		{`"range":"203.0.113.0/24"`, "use one of limit, block"},
		{`"range":"203.0.113.0/24","block":true,"remove":true`, "there are 2"},
		{`"range":"203.0.113.0/24","limit":5`, "a range of addresses can be blocked"},
		{`"range":"203.0.113.0/24","exempt":true`, "a range of addresses can be blocked"},
		{`"range":"203.0.113.0/24","unban":true`, "a range of addresses can be blocked"},
		{`"range":"203.0.113.0/24","key":"203.0.113.7","block":true`, "key, range, all"},
		{`"range":"203.0.113.0/24","all":true,"block":true`, "key, range, all"},
		{`"range":"","block":true`, "CIDR form"},
		{`"range":null,"block":true`, "null"},
		{`"range":"203.0.113.0/33","block":true`, "CIDR form"},
		{`"range":"203.0.113.*","block":true`, "CIDR form"},
		{`"range":"private_ranges","block":true`, "CIDR form"},
		{`"range":"203.0.113.0/24 ","block":true`, "CIDR form"},
		{`"range":"::ffff:203.0.113.0/90","block":true`, "CIDR form"},
		{`"range":"0.0.0.0/0","block":true`, "/0 is a large part of the internet"},
		{`"range":"16.0.0.0/7","block":true`, "/7 is a large part"},
		{`"range":"::ffff:16.0.0.0/103","block":true`, "/7 is a large part"},
		{`"range":"2000::/3","block":true`, "/3 is a large part"},
		{`"range":"2000::/15","block":true`, "/15 is a large part"},
	} {
		n.Override(t, 400, `{"policy":"api",`+test.fields+`}`).Want(t, 0, "*"+test.says+"*")
	}
	n.Override(t, 400, `{"policy":"users","range":"203.0.113.0/24","block":true}`).Want(t, 0, "*has no address of a client*")
	n.Override(t, 404, `{"policy":"users","range":"203.0.113.0/24","remove":true}`)
	n.Override(t, 404, `{"policy":"api","range":"0.0.0.0/0","remove":true}`)
	n.Ratelimit(t, "overrides").Want(t, 0, "no overrides")
	n.Override(t, 200, `{"policy":"api","range":"16.0.0.0/8","block":true}`)
	n.Override(t, 200, `{"policy":"api","range":"2000::/16","block":true}`)
	n.Ratelimit(t, "override", "--policy", "api", "--range", "0.0.0.0/0", "--block", "--force").Want(t, 0, "range     0.0.0.0/0\n")
	from(t, n, "/", "198.51.100.1", "denied override")
	from(t, n, "/", "2001:db8::1", "allowed memory") // IPv6
	n.Ratelimit(t, "override", "--policy", "api", "--range", "10.0.0.0/8", "--key", "a", "--block").Want(t, 1, "none of the others can be")
	n.Ratelimit(t, "override", "--policy", "api", "--range", "10.0.0.0/8", "--limit", "5").Want(t, 2, "can be blocked")
}

// TestRange_hashed has the answer say that a range is not hidden.
func TestRange_hashed(t *testing.T) {
	t.Parallel()
	option := strings.Replace(caddytest.SharedRedis(t), "timeout", "hash_keys secret\ntimeout", 1)
	n := caddytest.Start(t, caddytest.Config(option+behindProxy, rangedSite))
	n.Ratelimit(t, "override", "--policy", "api", "--range", "203.0.113.0/24", "--block").Want(t, 0, "Hint: the range lies in redis in the clear, although hash_keys hides keys\n")
	n.Override(t, 200, `{"policy":"api","key":"203.0.113.7","exempt":true}`)
	from(t, n, "/", "203.0.113.7", "exempt override")
	from(t, n, "/", "203.0.113.8", "denied override")
	n.Ratelimit(t, "overrides").Want(t, 0, "range    203.0.113.0/24", "one      %~")
	n.Ratelimit(t, "override", "--policy", "api", "--range", "203.0.113.0/24", "--remove").Want(t, 0, "override removed\n")
}
