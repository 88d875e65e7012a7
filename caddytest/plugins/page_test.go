package plugins

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// This file runs what docs/plugins.md shows.

var wholeCaddyfile = regexp.MustCompile("\n```caddyfile\n((?s:.*?)\n)```\n")

// sections returns the Caddyfiles of docs/plugins.md by their headings.
func sections(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, section := range strings.Split(caddytest.ReadFile(t, "docs/plugins.md"), "\n## ") {
		heading, _, _ := strings.Cut(section, "\n")
		for _, block := range wholeCaddyfile.FindAllStringSubmatch(section, -1) {
			assert.FatalIf(t, found[heading] != "", "%q has several Caddyfiles", heading)
			found[heading] = block[1]
		}
	}
	return found
}

// startSection runs the Caddyfile of a section in front of a backend, with changes of the test.
func startSection(t *testing.T, heading string, backend http.HandlerFunc, changes ...string) *caddytest.Node {
	t.Helper()
	text := "\n" + sections(t)[heading]
	assert.FatalIf(t, strings.Count(text, "\n:8080 {\n") != 1, "%q has no site on :8080", heading)
	options := "{\n\tadmin {$ADMIN}\n\tauto_https off\n\tdefault_bind 127.0.0.1\n\tgrace_period 1s\n"
	if own, found := strings.CutPrefix(text, "\n{\n"); found {
		text = options + own
	} else {
		text = options + "}\n" + text
	}
	changes = append(changes, "\n:8080 {\n", "\n:{$PORT} {\n", "127.0.0.1:9000", caddytest.Serve(t, backend))
	return caddytest.Start(t, strings.NewReplacer(changes...).Replace(text))
}

// TestPage_sections has a test for each Caddyfile.
func TestPage_sections(t *testing.T) {
	t.Parallel()
	var headings []string
	for heading := range sections(t) {
		headings = append(headings, heading)
	}
	slices.Sort(headings)
	want := []string{"Caches", "Firewalls", "Log-ins", "Networks", "TCP balancers"}
	assert.ErrorIf(t, !slices.Equal(headings, want), "docs/plugins.md has Caddyfiles for %q, the tests for %q", headings, want)
	const most = 1500
	words := len(strings.Fields(caddytest.ReadFile(t, "docs/plugins.md")))
	assert.ErrorIf(t, words > most, "docs/plugins.md has %d words, at most %d", words, most)
}

// ofClient is the header by which a test's clients differ.
const ofClient = "X-Client: "

// byHeader has limits count by a header in place of the address.
var byHeader = []string{"{client_ip}", "{header.X-Client}"}

func TestPage_caches(t *testing.T) {
	t.Parallel()
	n := startSection(t, "Caches", func(http.ResponseWriter, *http.Request) {}, append(byHeader, " 100 1m", " 3 24h")...)
	for left := int64(2); left >= 0; left-- { // the second and third are hits
		caddytest.CheckQuota(t, n.Get(t, "/", ofClient+"a"), 3, left)
	}
	n.Get(t, "/", ofClient+"a").Want(t, http.StatusTooManyRequests, caddytest.Any)
	a := n.Get(t, "/", ofClient+"b").Want(t, http.StatusOK, "", "Cache-Status: *hit*")
	caddytest.CheckQuota(t, a, 3, 2)
	warned(t, n)
}

func TestPage_cacheMisses(t *testing.T) {
	t.Parallel()
	page := caddytest.ReadFile(t, "docs/plugins.md")
	const option = "count_if header Cache-Status *fwd=*"
	assert.FatalIf(t, !strings.Contains(page, "`"+option+"`"), "docs/plugins.md does not show %s", option)
	n := startSection(t, "Caches", func(http.ResponseWriter, *http.Request) {}, "{client_ip} 100 1m", "{client_ip} 3 24h {\n"+option+"\n}")
	for range 5 {
		n.Get(t, "/").Want(t, http.StatusOK, "")
	}
	for _, path := range []string{"/a", "/b"} {
		n.Get(t, path).Want(t, http.StatusOK, "", "Cache-Status: *fwd=*")
	}
	n.Get(t, "/c").Want(t, http.StatusTooManyRequests, caddytest.Any)
}

func TestPage_firewalls(t *testing.T) {
	t.Parallel()
	page := caddytest.ReadFile(t, "docs/plugins.md")
	assert.FatalIf(t, !strings.Contains(page, "`defender` and `crowdsec` take the place of `coraza_waf`"), "docs/plugins.md names other firewalls")
	for firewall, attack := range map[string]string{"coraza_waf": "/?attack", "defender": "/", "crowdsec": "/"} {
		n := startSection(t, "Firewalls", func(http.ResponseWriter, *http.Request) {}, append(byHeader, "10 10m", "2 24h", "coraza_waf", firewall)...)
		for range 2 {
			n.Get(t, "/", ofClient+"a").Want(t, http.StatusOK, "")
			n.Get(t, attack, ofClient+"a", "X-Range: blocked").Want(t, http.StatusForbidden, caddytest.Any)
		}
		n.Get(t, "/", ofClient+"a").Want(t, http.StatusTooManyRequests, caddytest.Any)
		n.Send(t, http.MethodGet, n.Admin+"/metrics", "").Want(t, http.StatusOK, `*bans_total{policy="attacks"} 1*`)
		n.Get(t, "/", ofClient+"b").Want(t, http.StatusOK, "")
		warned(t, n)
	}
}

func TestPage_marks(t *testing.T) {
	t.Parallel()
	page := caddytest.ReadFile(t, "docs/plugins.md")
	const option = "match header X-RateLimit-Apply true"
	assert.FatalIf(t, !strings.Contains(page, "`"+option+"`"), "docs/plugins.md does not show %s", option)
	n := start(t, "", "defender ratelimit\nredis_ratelimit {client_ip} 1 24h { "+option+" }\nrespond ok")
	for range 3 {
		n.Get(t, "/").WantFree(t)
	}
	n.Get(t, "/", "X-Range: limited").Want(t, http.StatusOK, "ok")
	n.Get(t, "/", "X-Range: limited").Want(t, http.StatusTooManyRequests, caddytest.Any)
}

func TestPage_logins(t *testing.T) {
	t.Parallel()
	n := startSection(t, "Log-ins", func(http.ResponseWriter, *http.Request) {}, append(byHeader, " 5 15m", " 2 24h", " 1000 1h", " 9 24h", "Authorization *", "X-Token *")...)
	for left := int64(8); left > 5; left-- {
		caddytest.CheckQuota(t, n.Get(t, "/", "X-Token: bob", ofClient+"a").Want(t, http.StatusOK, ""), 9, left)
	}
	for range 3 { // without a token
		n.Get(t, "/", ofClient+"b").Want(t, http.StatusUnauthorized, caddytest.Any)
	}
	for range 2 {
		n.Get(t, "/", "X-Token: forged", ofClient+"b").Want(t, http.StatusUnauthorized, caddytest.Any)
	}
	n.Get(t, "/", "X-Token: bob", ofClient+"b").Want(t, http.StatusTooManyRequests, caddytest.Any)
}

func TestPage_networks(t *testing.T) {
	t.Parallel()
	serve := func(http.ResponseWriter, *http.Request) {}
	n := startSection(t, "Networks", serve, " 3000 1m", " 2 24h")
	for _, as := range []string{"64500", "64501"} {
		for left := int64(1); left >= 0; left-- {
			caddytest.CheckQuota(t, n.Get(t, "/", "X-As: "+as), 2, left)
		}
	}
	for range 3 {
		n.Get(t, "/").WantFree(t)
	}
	n = startSection(t, "Networks", serve, " 3000 1m", " 2 24h", "redis_ratelimit {asn}", "redis_ratelimit {geoip2.autonomous_system_number}")
	for range 2 {
		n.Get(t, "/").Want(t, http.StatusOK, "")
	}
	n.Get(t, "/").Want(t, http.StatusTooManyRequests, caddytest.Any) // 0 is a key
	n = start(t, "order geo_ops first", "geo_ops\nredis_ratelimit {geo.geolite2-asn.autonomous_system_number} 2 24h { on_empty_key skip }\nrespond ok")
	for range 3 {
		n.Get(t, "/").WantFree(t)
	}
	caddytest.CheckQuota(t, n.Get(t, "/", "X-As: 64500"), 2, 1)
}
