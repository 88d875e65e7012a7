package admin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// behindProxy is the global option that has a proxy on this machine name the clients.
const behindProxy = "\nservers {\ntrusted_proxies static 127.0.0.0/8\n}"

// forms are an IPv4 address as it comes: by itself, mapped, by NAT64, by SIIT, and by 6to4 with any interface.
var forms = []string{"203.0.113.7", "::ffff:203.0.113.7", "64:ff9b::203.0.113.7", "::ffff:0:203.0.113.7", "2002:cb00:7107::1", "2002:cb00:7107:5:6:7:8:9"}

// TestKeys_embedded has one client come by an IPv4 address in each of its forms, and operators name any of them.
func TestKeys_embedded(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, source string) {
		n := caddytest.Start(t, caddytest.Config(option+behindProxy, "redis_ratelimit {client_ip} 6 24h {\nname api\n}\n"+caddytest.ShowDecision))
		get := func(address, want string) {
			t.Helper()
			n.Get(t, "/", "X-Forwarded-For: "+address).Want(t, 0, want)
		}
		override := func(address string, args ...string) caddytest.Ending {
			return n.Ratelimit(t, append([]string{"override", "--policy", "api", "--key", address}, args...)...)
		}
		for _, address := range forms {
			get(address, "allowed "+source)
		}
		for _, address := range forms {
			get(address, "denied "+source)
			n.Ratelimit(t, "state", "--policy", "api", "--key", address).Want(t, 0, "key", "203.0.113.7\n", "limit        6\nremaining    0\n")
			n.Ratelimit(t, "explain", "--client-ip", address, "--url", n.URL+"/").Want(t, 4, "api     203.0.113.7  denied ")
			n.Ratelimit(t, "reset", "--policy", "api", "--key", address).Want(t, 0)
			for range 6 {
				get(forms[0], "allowed "+source)
			}
		}
		for i, address := range forms {
			override(address, "--exempt").Want(t, 0, "key       203.0.113.7\n")
			get(forms[len(forms)-1-i], "exempt override")
			override(address, "--remove").Want(t, 0)
			get(address, "denied "+source)
		}
		get("64:ff9b::10.0.0.1", "allowed "+source) // no client of the internet: it counts with its /64
		n.Ratelimit(t, "state", "--policy", "api", "--key", "64:ff9b::10.0.0.1").Want(t, 0, "Hint: ", "this one's key is 64:ff9b::/64")
		n.Ratelimit(t, "state", "--policy", "api", "--key", "64:ff9b::/64").Want(t, 0, "remaining    5\n")
		n.Ratelimit(t, "state", "--policy", "api", "--key", "10.0.0.1").Want(t, 0, "remaining    6\n")
		get("64:ff9b:1::5", "allowed "+source) // of a network with a translator of its own: whole addresses
		n.Ratelimit(t, "state", "--policy", "api", "--key", "64:ff9b:1::5").Want(t, 0, "remaining    5\n")
		n.Ratelimit(t, "state", "--policy", "api", "--key", "64:ff9b:1::6").Want(t, 0, "remaining    6\n")
	})
}

// TestKeys_embeddedCompared has matchers and exemptions, which compare addresses as they come.
func TestKeys_embeddedCompared(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config(behindProxy, `redis_ratelimit {
		exempt 203.0.113.0/24 64:ff9b::cb00:7200/120
		policy api { key {client_ip}; limit 9; window 24h }
		policy v4 { key {client_ip}; match { client_ip 198.51.100.0/24 }; limit 1; window 24h }
	}`+caddytest.ShowDecision))
	for _, test := range []struct{ address, want string }{
		{"203.0.113.7", "exempt "},
		{"64:ff9b::203.0.113.7", "allowed memory"},
		{"64:ff9b::203.0.114.7", "exempt "},
		{"203.0.114.7", "allowed memory"},
		{"198.51.100.7", "allowed memory"},
		{"198.51.100.7", "denied memory"},
		{"64:ff9b::198.51.100.7", "allowed memory"},
	} {
		n.Get(t, "/", "X-Forwarded-For: "+test.address).Want(t, 0, test.want)
	}
}

// TestKeys_embeddedElsewhere has policies whose keys are not addresses, or not all: an operator's key is taken as it is.
// An override from before remains to be removed by its own name when the keys have become addresses.
func TestKeys_embeddedElsewhere(t *testing.T) {
	t.Parallel()
	const nat64 = "64:ff9b::cb00:7107"
	site := func(key string) string {
		return caddytest.Config("", "redis_ratelimit "+key+" 2 24h {\nname api\n}\nredis_ratelimit {client_ip}x 2 24h {\nname mixed\n}\nredis_ratelimit {client_ip} 2 24h {\nname mixed\n}\n"+caddytest.ShowDecision)
	}
	n := caddytest.Start(t, site("{header.X-Key}"))
	n.Ratelimit(t, "override", "--policy", "api", "--key", nat64, "--block").Want(t, 0, "key       "+nat64+"\n", "Hint: ", "203.0.113.7")
	n.Get(t, "/", "X-Key: "+nat64).Want(t, http.StatusTooManyRequests, caddytest.Any)
	n.Ratelimit(t, "state", "--policy", "mixed", "--key", nat64).Want(t, 0, "key          "+nat64+"\n")
	n.Reload(t, site("{client_ip}"))
	n.Ratelimit(t, "override", "--policy", "api", "--key", nat64, "--limit", "7").Want(t, 0, "key       203.0.113.7\n", "Hint: this address counts as 203.0.113.7")
	n.Ratelimit(t, "overrides").Want(t, 0, nat64, "203.0.113.7")
	n.Ratelimit(t, "override", "--policy", "api", "--key", nat64, "--remove").Want(t, 0)
	n.Ratelimit(t, "override", "--policy", "api", "--key", nat64, "--remove").Want(t, 0)
	n.Ratelimit(t, "override", "--policy", "api", "--key", nat64, "--remove").Want(t, 2, "no such override")
}

// TestReplay_embedded plays a log with the forms of one address.
func TestReplay_embedded(t *testing.T) {
	t.Parallel()
	e := replays(t, perClient, logLines(forms...))
	e.Want(t, 0, fmt.Sprintf("%d requests, %d denied", len(forms), len(forms)-2), "; 1 key, 1 denied", "203.0.113.7\n")
	if strings.Contains(e.Stdout, "64:ff9b") {
		t.Errorf("a key is the address as it came: %v", e)
	}
}
