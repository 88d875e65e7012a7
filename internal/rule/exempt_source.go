package rule

import (
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers"
)

// ExemptSource is a module of ranges that change without a reload. Clients in them are exempt.
type ExemptSource struct {
	source caddyhttp.IPRangeSource
	last   atomic.Pointer[sourceRanges]
}

// NewExemptSource returns the source of a module.
func NewExemptSource(source caddyhttp.IPRangeSource) *ExemptSource {
	return &ExemptSource{source: source}
}

// sourceRanges are ranges of a module, which are known by their memory: modules replace them as a whole.
type sourceRanges struct {
	first  *netip.Prefix
	number int
	sorted *crawlers.Ranges // nil until the module has returned the same ones twice: some make them anew each time
}

// has reports whether an address is in the ranges that the module has now.
func (s *ExemptSource) has(r *http.Request, a netip.Addr) bool {
	ranges := s.source.GetIPRanges(r)
	if len(ranges) == 0 {
		return false
	}
	last := s.last.Load()
	switch {
	case last == nil || last.first != &ranges[0] || last.number != len(ranges):
		s.last.Store(&sourceRanges{first: &ranges[0], number: len(ranges)})
	case last.sorted == nil:
		s.last.Store(&sourceRanges{&ranges[0], len(ranges), crawlers.Merge(unmapped(ranges))})
	default:
		return last.sorted.Contains(a)
	}
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return unmap(p).Contains(a) })
}

// unmapped returns ranges as they are compared with addresses.
func unmapped(ranges []netip.Prefix) (all []netip.Prefix) {
	for _, p := range ranges {
		if p = unmap(p); p.IsValid() {
			all = append(all, p.Masked())
		}
	}
	return all
}

// unmap returns a range of IPv4 in IPv6 as one of IPv4.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}
