package reliability

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// pinned is a global option that trusts servers by pins.
func pinned(address string, pins ...string) string {
	return "timeout 5s\nredis {\naddress " + address + "\ntls {\npin " + strings.Join(pins, " ") + "\n}\n}"
}

// serveTLS starts a server with a certificate, and returns its address for TLS.
func serveTLS(t *testing.T, a *redistest.Authority, cert, key string) (address string) {
	t.Helper()
	address = redistest.FreeAddr(t)
	_, port, _ := strings.Cut(address, ":")
	redistest.Start(t, a.Arguments(port, cert, key)...)
	return address
}

// TestPin has servers whose certificates cannot be verified: of an unknown authority, with an expired certificate, and with a
// renewed one of the same key. The pin of their key is enough, and no other is. check prints the pin to write.
func TestPin(t *testing.T) {
	t.Parallel()
	authority := redistest.NewAuthority(t)
	cert, key := authority.Issue(t, "other.test")
	_, foreign := authority.Issue(t, "foreign.test")
	pin, wrong := redistest.PinOf(t, key), redistest.PinOf(t, foreign)
	for name, cert := range map[string]string{
		"unknown authority": cert,
		"expired":           authority.IssueFor(t, "other.test", key, time.Now().Add(-time.Hour)),
		"renewed":           authority.IssueFor(t, "renewed.test", key, time.Now().Add(time.Hour)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := serveTLS(t, authority, cert, key)
			check(t, 0, pinned(address, wrong, strings.ToUpper(pin)), caddytest.LimitedSite, "no failed", "script ok")
			check(t, 3, pinned(address, wrong), caddytest.LimitedSite,
				"reachable failed: is none of the pins", "reachable failed: set in tls: pin "+pin)
			check(t, 3, "redis rediss://"+address, caddytest.LimitedSite, "reachable failed: set in tls: pin "+pin)
			site := "redis_ratelimit same 1000 24h" + caddytest.ShowDecision
			n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\n"+pinned(address, "{env.PIN}")+"\n}", site), "PIN="+pin)
			caddytest.WaitForRedis(t, n, "/")
			n.Reload(t, caddytest.Config("redis_ratelimit {\n"+pinned(address, wrong)+"\n}", site))
			n.Get(t, "/").Want(t, 0, "allowed fallback")
			refused := n.Log.Lines(func(l caddytest.LogLine) bool {
				return caddytest.Ours(l) && strings.Contains(l.Text, "none of the pins")
			})
			assert.ErrorIf(t, len(refused) == 0, "the log does not name the pin: %s", n.Log)
		})
	}
}

// TestPin_sentinel has a sentinel and its master with keys of their own. Both must be listed.
func TestPin_sentinel(t *testing.T) {
	t.Parallel()
	authority := redistest.NewAuthority(t)
	cert, key := authority.Issue(t, "master.test")
	master := serveTLS(t, authority, cert, key)
	cert, own := authority.Issue(t, "sentinel.test")
	address := redistest.FreeAddr(t)
	_, port, err := net.SplitHostPort(address)
	assert.Must(t, err)
	lines := []string{"tls-replication yes"}
	for pair := range slices.Chunk(authority.Arguments(port, cert, own), 2) {
		lines = append(lines, strings.TrimPrefix(pair[0], "--")+" "+pair[1])
	}
	redistest.StartSentinel(t, &redistest.Server{Addr: master}, "main", lines...)
	option := func(pins ...string) string {
		return strings.Replace(pinned(address, pins...), "redis {", "redis {\nmode sentinel\nmaster main", 1)
	}
	ofMaster, ofSentinel := redistest.PinOf(t, key), redistest.PinOf(t, own)
	check(t, 0, option(ofMaster, ofSentinel), caddytest.LimitedSite, "no failed", "script ok")
	check(t, 3, option(ofMaster), caddytest.LimitedSite, "reachable failed: to trust this key of the sentinel, set in tls: pin "+ofSentinel)
	check(t, 3, option(ofSentinel), caddytest.LimitedSite, "reachable failed: to trust this key of Redis, set in tls: pin "+ofMaster)
}

// TestPin_refused loads configurations whose pins are none. Errors quote nothing: a secret may stand there.
func TestPin_refused(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("0123456789abcdef", 4)
	for value, want := range map[string]string{
		"hunter2":                        "pin: use 64 hexadecimal digits, the SHA-256 of the public key",
		digits + "00":                    "pin: use 64 hexadecimal digits, the SHA-256 of the public key",
		strings.Repeat("AB:", 31) + "AB": "pin: use 64 hexadecimal digits without colons",
		"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=":         "pin: use 64 hexadecimal digits, not base64",
		"sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=": "pin: use 64 hexadecimal digits, not base64",
		digits + " hunter2":             "pin: use 64 hexadecimal digits, the SHA-256",
		"{env.WRONG}":                   "pin: use 64 hexadecimal digits, the SHA-256",
		"{env.NONE}":                    "pin: the placeholder {env.NONE} is unknown or empty",
		digits + "\nca /etc/ca.pem":     "ca, pin: leave one of them out",
		"{env.PIN}\nca /etc/hunter.pem": "ca, pin: leave one of them out",
		"":                              "pin takes the SHA-256 of at least one public key",
	} {
		e := runCheck(t, []string{"WRONG=hunter2", "PIN=" + digits}, pinned("127.0.0.1:1", value), caddytest.LimitedSite)
		assert.ErrorIf(t, e.Code == 0 || !strings.Contains(e.String(), want), "%s: got %v; want %q", value, e, want)
		assert.ErrorIf(t, strings.Contains(e.String(), "hunter2") || strings.Contains(e.String(), "47DEQ"), "%s: a value is quoted: %v", value, e)
	}
}
