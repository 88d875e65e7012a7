package crawlers

import (
	"context"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func headerOf(agents ...string) http.Header { return http.Header{"User-Agent": agents} }

// fileOf returns a file of ranges.
func fileOf(t testing.TB, ranges string) *File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ranges")
	assert.Must(t, os.WriteFile(path, []byte(ranges), 0o600))
	return assert.NoError(OpenFile(path))(t)
}

// testSet is a set of crawlers that are known in different ways.
func testSet(t *testing.T) *Set {
	t.Helper()
	w := newWorld(map[string]string{
		crawler: "crawl-1.googlebot.com", liar: "dsl.isp.example", broken: "", "40.77.167.1": "msnbot-1.search.msn.com",
		"2001:4860:4801:10::1": "crawl6.googlebot.com",
	})
	l := w.lookups(t, func(o *LookupOptions) { o.Suffixes = []string{".googlebot.com", ".search.msn.com"} })
	l.Names(context.Background(), netip.MustParseAddr(liar), time.Minute) // the resolver finds names
	return NewSet([]*Crawler{
		{Name: "google", Words: []string{"Googlebot"}, Suffixes: []string{".googlebot.com"}},
		{Name: "bing", Words: []string{"bingbot"}, Suffixes: []string{".search.msn.com"}},
		{Name: "openai", Words: []string{"GPTBot"}, Ranges: []*File{fileOf(t, "52.230.152.0/24"), fileOf(t, "20.0.0.0/24")}},
		{Name: "both", Words: []string{"OurMonitor"}, Suffixes: []string{".googlebot.com"}, Ranges: []*File{fileOf(t, "52.230.153.0/24")}},
		{Name: "other", Words: []string{"GPTBot"}, Ranges: []*File{fileOf(t, "52.230.154.0/24")}},
	}, l, time.Minute, func() { t.Helper() })
}

// TestSet_Verify holds what is known of requests by their User-Agent and their address.
func TestSet_Verify(t *testing.T) {
	s := testSet(t)
	for _, test := range []struct {
		agent, address string
		claimed        string
		status         Status
	}{
		{"Mozilla/5.0 Firefox/145.0", crawler, "", Unclaimed},
		{"", crawler, "", Unclaimed},
		{"Mozilla/5.0 (compatible; Googlebot/2.1)", crawler, "google", Verified},
		{"GOOGLEBOT", crawler, "google", Verified},
		{"Googlebot", "::ffff:66.249.66.1", "google", Verified},
		{"Googlebot", "64:ff9b::42f9:4201", "google", Verified},
		{"Googlebot", "2001:4860:4801:10::1", "google", Verified},
		{"Googlebot", liar, "google", Forged},
		{"Googlebot", "203.0.113.77", "google", Forged},
		{"Googlebot", broken, "google", Unknown},
		{"Googlebot", "40.77.167.1", "google", Forged}, // the true Bing
		{"bingbot", "40.77.167.1", "bing", Verified},
		{"bingbot Googlebot", "40.77.167.1", "bing", Verified},
		{"bingbot Googlebot", crawler, "google", Verified},
		{"bingbot Googlebot", liar, "google", Forged},
		{"Googlebot", "10.0.0.5", "google", Unknown},
		{"Googlebot", "100.64.0.1", "google", Unknown},
		{"Googlebot", "192.0.0.8", "google", Unknown},
		{"Googlebot", "198.18.0.1", "google", Unknown},
		{"Googlebot", "198.19.255.255", "google", Unknown},
		{"Googlebot", "240.1.2.3", "google", Unknown},
		{"Googlebot", "64:ff9b:1::1", "google", Unknown},
		{"Googlebot", "fec0::1", "google", Unknown},
		{"Googlebot", "0.1.2.3", "google", Unknown},
		{"Googlebot", "192.88.99.1", "google", Unknown},
		{"Googlebot", "::10.0.0.1", "google", Unknown},
		{"Googlebot", "100::1", "google", Unknown},
		{"Googlebot", "2001:2::1", "google", Unknown},
		{"Googlebot", "5f00::1", "google", Unknown},
		{"Googlebot", "127.0.0.1", "google", Unknown},
		{"Googlebot", "fd00::1", "google", Unknown},
		{"Googlebot", "fe80::1%eth0", "google", Unknown},
		{"GPTBot/1.0", "52.230.152.9", "openai", Verified},
		{"GPTBot/1.0", "20.0.0.9", "openai", Verified},
		{"GPTBot/1.0", "52.230.154.9", "other", Verified},
		{"GPTBot/1.0", "52.230.155.9", "openai", Forged},
		{"OurMonitor", "52.230.153.9", "both", Verified},
		{"OurMonitor", crawler, "both", Verified},
		{"OurMonitor", liar, "both", Forged},
		{"OurMonitor", broken, "both", Unknown},
	} {
		claim := s.ClaimOf(headerOf(test.agent))
		got := s.Verify(context.Background(), claim, Sender{Address: netip.MustParseAddr(test.address)})
		assert.Equal(t, got.Status(), test.status, "the status of %q from %s", test.agent, test.address)
		assert.Equal(t, got.Claimed(), test.claimed, "the claim of %q from %s", test.agent, test.address)
		verified := ""
		if test.status == Verified {
			verified = test.claimed
		}
		assert.Equal(t, got.Crawler(), verified, "the crawler of %q from %s", test.agent, test.address)
	}
	for _, header := range []http.Header{{}, headerOf("Googlebot", "Googlebot")} {
		assert.Equal(t, s.ClaimOf(header).IsNone(), true, "whether %v claims nothing", header)
	}
	got := s.Verify(context.Background(), s.ClaimOf(headerOf("Googlebot")), Sender{})
	assert.Equal(t, got, Identity{}, "a request without an address")
}

// TestSet_Verify_old has no claim be forged by an old file, nor by names alone where an old file may lack the address.
func TestSet_Verify_old(t *testing.T) {
	s := testSet(t)
	for _, c := range s.Crawlers {
		for _, file := range c.Ranges {
			file.now = func() time.Time { return time.Now().Add(OldAfter + time.Hour) }
		}
	}
	for _, agent := range []string{"GPTBot", "OurMonitor"} {
		got := s.Verify(context.Background(), s.ClaimOf(headerOf(agent)), Sender{Address: netip.MustParseAddr(liar)})
		assert.Equal(t, got.Status(), Unknown, "the status of %s", agent)
	}
}

// TestSet_Verify_unbelieved has no crawler be forged while all claims come through a proxy that is not trusted.
func TestSet_Verify_unbelieved(t *testing.T) {
	s := testSet(t)
	status := func(unbelieved bool) Status {
		from := Sender{Address: netip.MustParseAddr(liar), Unbelieved: unbelieved}
		return s.Verify(context.Background(), s.ClaimOf(headerOf("Googlebot")), from).Status()
	}
	assert.Equal(t, status(true), Unknown, "through a proxy that is not trusted")
	s.Verify(context.Background(), s.ClaimOf(headerOf("Firefox")), Sender{Address: netip.MustParseAddr(liar)})
	assert.Equal(t, status(true), Unknown, "after a browser's request without the proxy")
	assert.Equal(t, status(false), Forged, "without the proxy")
	assert.Equal(t, status(true), Forged, "after a claim without the proxy")
}

// TestSet_Verify_private tells once of claims from private addresses.
func TestSet_Verify_private(t *testing.T) {
	s, told := testSet(t), 0
	s.OnPrivate = func() { told++ }
	for i := range 2 * privateClaims {
		s.Verify(context.Background(), s.ClaimOf(headerOf("Googlebot")), Sender{Address: netip.MustParseAddr("10.0.0.5")})
		want := 0
		if i >= privateClaims-1 {
			want = 1
		}
		assert.Equal(t, told, want, "warnings after %d claims", i+1)
	}
}

// TestSet_VerifyOffline asks ranges, and no names.
func TestSet_VerifyOffline(t *testing.T) {
	s := testSet(t)
	for agent, want := range map[string]Status{"Googlebot": Unknown, "GPTBot": Forged, "Firefox": Unclaimed} {
		got := s.VerifyOffline(s.ClaimOf(headerOf(agent)), Sender{Address: netip.MustParseAddr("66.249.66.9")})
		assert.Equal(t, got.Status(), want, "the status of %s", agent)
	}
}
