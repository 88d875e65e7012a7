package rule

import (
	"net/http"
	"net/netip"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
)

// Blocks reports whether a block for all policies refuses a request of the client's address, before any rule is evaluated, and
// adds the check that says so: of the first rule that is enforced, whatever requests it matches. Where all rules are dry runs
// the check is one of these. An error refuses the request; there is no check then.
func (s *Set) Blocks(r *http.Request, e *Evaluation) (blocked bool, refused error) {
	if !s.Overrides.BlocksEverywhere() {
		return false, nil
	}
	return s.blocksAddress(r, e)
}

// blocksAddress is [Set.Blocks] where there are blocks for all policies. An address that the client may have forged has to be
// verified first.
func (s *Set) blocksAddress(r *http.Request, e *Evaluation) (blocked bool, refused error) {
	if isEarly(r) {
		if s.IsDryRun() {
			return false, nil
		}
		return false, Refuse(http.StatusTooEarly, errEarly)
	}
	block := s.Overrides.BlockOf(clientAddress(r))
	if block == nil || len(s.Rules) == 0 {
		return false, nil
	}
	found := Finding{Rule: s.firstEnforced(), Status: Blocked, Override: block}
	if found.Rule == nil {
		found.Rule, found.DryRun = &s.Rules[0], true
	}
	found.Key = found.Rule.Key.keyOfClient(r)
	if e.OnFinding != nil {
		e.OnFinding(found)
	}
	check := s.block(found.Rule, found.Key, block)
	e.add(&found, &check)
	e.BlockedEverywhere = e.Blocked
	return true, nil
}

// IsDryRun reports whether all rules are dry runs for all clients.
func (s *Set) IsDryRun() bool { return s.firstEnforced() == nil }

// firstEnforced returns the first rule that is enforced for a part of the keys at least; nil if there is no such rule.
func (s *Set) firstEnforced() *Rule {
	for i := range s.Rules {
		if r := &s.Rules[i]; !r.DryRun && (r.Rollout == nil || r.Rollout.fraction > 0) {
			return r
		}
	}
	return nil
}

// clientAddress returns the whole address of a request's client; the zero value if it has no address, as over a unix socket.
func clientAddress(r *http.Request) netip.Addr {
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return address
}

// keyOfClient returns the key of a client's address in a policy without reading anything else of its request: the client's key
// where that is the address, else the key that takes the place of an empty one.
func (t *KeyTemplate) keyOfClient(r *http.Request) limiter.EncodedKey {
	if len(t.parts) == 1 && t.parts[0].Name == clientIPName {
		return t.key(&request{Request: r})
	}
	return t.addressKey(r)
}

// blockOfKey returns the block for all policies that contains all addresses of clients in a key, and one that contains some of
// them; nil: no override does.
func (r *Rule) blockOfKey(live *overrides.Live, key limiter.EncodedKey) (all, some *overrides.Entry) {
	for _, address := range r.addressesOfKey(key) {
		network, err := ParseRange(address.text)
		if err != nil || !address.ofClient {
			continue
		}
		whole, part := live.BlockOfNetwork(network)
		if all = overrides.Longer(all, whole); whole == nil && part != nil {
			some = part
		}
	}
	return all, some
}
