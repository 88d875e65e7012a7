package rule

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// rangesNow is a module whose ranges a test changes.
type rangesNow struct {
	ranges []netip.Prefix
	fresh  bool // makes the slice anew each time
}

func (n *rangesNow) GetIPRanges(*http.Request) []netip.Prefix {
	if n.fresh {
		return append([]netip.Prefix(nil), n.ranges...)
	}
	return n.ranges
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// TestExemptSource follows a module's ranges, by whatever slices it returns them.
func TestExemptSource(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		module := &rangesNow{fresh: fresh}
		s := &Set{ExemptSources: []*ExemptSource{NewExemptSource(module)}}
		exempts := func(address string) bool {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			vars := map[string]any{caddyhttp.ClientIPVarKey: address}
			return s.isExempt(r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, vars)), "")
		}
		for _, step := range []struct {
			ranges  []netip.Prefix
			in, out []string
		}{
			{nil, nil, []string{"192.0.2.7", "2001:db8::1"}},
			{
				prefixes("192.0.2.0/24", "0.0.0.0/1", "2001:db8::/32"), []string{"192.0.2.7", "10.1.1.1", "2001:db8::1", "::ffff:192.0.2.7"},
				[]string{"198.51.100.7", ""},
			},
			{prefixes("198.51.100.0/24"), []string{"198.51.100.7"}, []string{"192.0.2.7"}},
			{prefixes("::ffff:192.0.2.0/120", "203.0.113.7/32"), []string{"192.0.2.7", "203.0.113.7"}, []string{"198.51.100.7", "203.0.113.8"}},
			{nil, nil, []string{"192.0.2.7"}},
		} {
			module.ranges = step.ranges
			for range 3 {
				for _, address := range step.in {
					assert.ErrorIf(t, !exempts(address), "%s is not exempt by %v", address, step.ranges)
				}
				for _, address := range step.out {
					assert.ErrorIf(t, exempts(address), "%s is exempt by %v", address, step.ranges)
				}
			}
		}
	}
}
