package rule

import (
	"net/netip"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
)

// UnderOverride returns the policy that a rule decides by if an override applies, or the rule's status. The override may
// be nil.
func UnderOverride(e *overrides.Entry, p *limiter.Policy) (*limiter.Policy, Status) {
	switch {
	case e == nil:
		return p, Counts
	case e.Action == overrides.Limit:
		return e.Policy(p), Counts
	case e.Action == overrides.Block:
		return p, Blocked
	}
	return p, Exempted
}

// overrideOf returns the override of a request: for the rule's key, for a range of addresses, or for all clients.
func (s *Set) overrideOf(rule *Rule, key limiter.EncodedKey, q *request) *overrides.Entry {
	found, ranges := s.Overrides.Find(rule.Policy.Name(), key)
	if ranges == nil || isExemption(found) {
		return found
	}
	var space [1]netip.Addr
	return s.underRanges(found, ranges, rule.appendAddresses(space[:0], q))
}

// underRanges returns which applies: an override of a key or of all, which may be nil, or a block of one of some addresses.
func (s *Set) underRanges(found *overrides.Entry, ranges *overrides.Ranges, addresses []netip.Addr) *overrides.Entry {
	var block *overrides.Entry
	for _, address := range addresses {
		block = overrides.Longer(block, s.Overrides.Blocking(ranges, address))
	}
	return underRange(found, block)
}

// appendAddresses appends the addresses in the key of a request.
func (r *Rule) appendAddresses(addresses []netip.Addr, q *request) []netip.Addr {
	for i := range r.Key.parts {
		if part := &r.Key.parts[i]; part.address {
			if address, err := netip.ParseAddr(addressOf(part, q)); err == nil {
				addresses = append(addresses, address)
			}
		}
	}
	return addresses
}

// isExemption reports whether an override exempts one client. Such an override goes before a block of the client's range.
func isExemption(e *overrides.Entry) bool {
	return e != nil && e.Action == overrides.Exempt && !e.All()
}

// underRange returns which of two overrides applies, the override of a key or the block of a range. Both may be nil. Of two
// blocks the longer one applies.
func underRange(found, block *overrides.Entry) *overrides.Entry {
	switch {
	case block == nil:
		return found
	case found != nil && found.Action == overrides.Block:
		return overrides.Longer(found, block)
	}
	return block
}

// addressOf returns the whole address of a part of the key, not cut to its prefix.
func addressOf(part *keyPart, q *request) string {
	if part.Name == clientIPName {
		text, _ := caddyhttp.GetVar(q.Context(), caddyhttp.ClientIPVarKey).(string)
		return text
	}
	text, _ := q.repl.GetString(part.Name)
	return text
}

// block returns the check of a rule that an override blocks. No store decides it.
func (s *Set) block(rule *Rule, key limiter.EncodedKey, e *overrides.Entry) limiter.Check {
	return rule.blocked(rule.Policy, key, BlockResult(e, s.Overrides.Now()))
}

// BlockResult returns the result of a check that an override blocks, at an instant of Redis's clock. A block without an
// end never lets a check pass.
func BlockResult(e *overrides.Entry, now time.Time) limiter.Result {
	if e.Until.IsZero() {
		return limiter.Result{RetryAfter: limiter.Never, ResetAfter: limiter.Never}
	}
	wait := max(time.Microsecond, e.Until.Sub(now))
	return limiter.Result{RetryAfter: wait, ResetAfter: wait}
}

// BlockSource returns the source of a check that is refused without a decision: an override, or a limit of 0, which has
// the source of a store.
func BlockSource(check *limiter.Check) limiter.Source {
	if check.Policy.Capacity() == 0 {
		return limiter.SourceMemory
	}
	return limiter.SourceOverride
}

// forgetRemaining sets the remaining units of the checks beside a block to unknown, because no store is asked for them.
func (e *Evaluation) forgetRemaining() {
	for i := range e.Enforced {
		if e.Enforced[i].Result.Passes() {
			e.Enforced[i].Result.Remaining = limiter.Unknown
		}
	}
}

// evaluateExempt evaluates a request of an exempt client, whom overrides block nevertheless. Without a block it has no
// checks.
func (s *Set) evaluateExempt(q *request, e *Evaluation) {
	for i := range s.Rules {
		rule := &s.Rules[i]
		if !s.Overrides.Blocks(rule.Policy.Name()) {
			continue
		}
		key, status, err := s.keyOf(rule, q, e)
		if err != nil || status != Counts && status != Looks {
			continue
		}
		if entry := s.overrideOf(rule, key, q); entry != nil && entry.Action == overrides.Block && rule.Enforces(key) {
			found := Finding{Rule: rule, Status: Blocked, Key: key, Override: entry}
			if e.OnFinding != nil {
				e.OnFinding(found)
			}
			blocked := s.block(rule, key, entry)
			e.add(&found, &blocked)
		}
	}
	e.ExemptClient = !e.Blocked
}
