package challenge

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestPage_size bounds the page in each language, with the longest name of a site and a query, and has the name on it once.
func TestPage_size(t *testing.T) {
	k := newKeeper(counting())
	k.now = func() time.Time { return time.Unix(1795418711, 0) }
	site := strings.Repeat("a", mostSite-4) + ".com"
	for _, s := range sentences {
		for _, proven := range []bool{false, true} {
			r := httptest.NewRequest(http.MethodGet, "/a?b=c&d=%41", http.NoBody)
			r.Host = site + ":8443"
			r.Header.Set("Accept-Language", s.language+"-XX, en;q=0.5")
			b, w := k.Browser(r, "203.0.113.7"), httptest.NewRecorder()
			assert.Must(t, b.Page(w, r.URL.RawQuery, Look{Status: 429, Proven: proven}, func(uint16) bool { return true }))
			page := w.Body.String()
			assert.ErrorIf(t, len(page) > 2048, "%s, proven %t: %d bytes", s.language, proven, len(page))
			assert.ErrorIf(t, strings.Count(page, site) != 1 || strings.Contains(page, "8443") || strings.Count(page, s.waits) != 2, "%s", page)
			assert.Equal(t, strings.Contains(page, " dir=rtl>"), s.language == "ar" || s.language == "he", "%s goes from right to left", s.language)
			assert.Must(t, b.askForCookies(w, "./a", Look{Status: 429}))
		}
	}
}

// TestSiteOf shows names of hosts, and nothing that could be markup.
func TestSiteOf(t *testing.T) {
	for host, want := range map[string]string{
		"": "", "example.com": "example.com", "example.com:8443": "example.com", "XN--mnchen-3YA.de": "XN--mnchen-3YA.de", "203.0.113.7:80": "203.0.113.7",
		"[2001:db8::1]": "[2001:db8::1]", "[2001:db8::1]:443": "[2001:db8::1]", "a_b.example": "", "<b>": "", `a"b`: "", "a&amp;b": "", "a b": "", "a/b": "",
		"\u202eevil": "", "ex\x00": "", strings.Repeat("a", mostSite): strings.Repeat("a", mostSite), strings.Repeat("a", mostSite+1): "", ":80": "",
	} {
		assert.Equal(t, siteOf(host), want, "the site of %q", host)
	}
	for c := range 256 {
		host := "a" + string([]byte{byte(c)}) + "b"
		assert.ErrorIf(t, siteOf(host) == host && html.EscapeString(host) != host, "%q is shown as it is", host)
	}
}
