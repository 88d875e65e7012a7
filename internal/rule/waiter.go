package rule

import (
	"net/http"
	"net/netip"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
)

// Waiter is a request that waits to be decided, of which a rule has made a check. It needs nothing of the request any more:
// its functions may be called in any goroutine.
type Waiter struct {
	set       *Set
	rule      *Rule
	key       limiter.EncodedKey
	client    netip.Addr   // whose request it is
	addresses []netip.Addr // in the key
	limit     int64        // that the request's placeholder has given
	given     bool         // it has
}

// NewWaiter returns the waiter of a request. Its limit counts as of now if a placeholder gives it.
func (s *Set) NewWaiter(rule *Rule, r *http.Request, repl *caddy.Replacer, body Body, key limiter.EncodedKey) *Waiter {
	q := requestOf(r, repl, body)
	w := &Waiter{set: s, rule: rule, key: key, client: clientAddress(r), addresses: rule.appendAddresses(nil, q)}
	w.limit, w.given = rule.limitAgain(q)
	return w
}

// limitAgain reads the limit of a request whose rule was evaluated, and neither counts nor warns again.
func (r *Rule) limitAgain(q *request) (limit int64, given bool) {
	if r.Numbers.LimitFrom.Name == "" {
		return 0, false
	}
	again := *r
	again.Numbers.LimitFrom.empties = nil
	return new(Set).readNumber(&again, again.limitOption(), &again.Numbers.LimitFrom, q, 0)
}

// Current returns the policy that the request is decided by now, with the limit of an override that applies now, or else with
// its own; and the rule's status: Counts, Blocked, Exempted or Unlimited. Its own limit is that of the configuration that runs
// now, unless a placeholder has given one.
func (w *Waiter) Current() (*limiter.Policy, Status) {
	newest := w.newest()
	if e := w.override(); e != nil {
		return UnderOverride(e, newest.Policy)
	}
	return w.own(&newest)
}

// newest returns the policy of the configuration that runs now. Where that has none with the same counts, or has another
// placeholder for the limit, whose value is not known, the rule's own policy stays.
func (w *Waiter) newest() Newest {
	own := &w.rule.Numbers
	if w.set.Newest != nil {
		n, found := w.set.Newest(w.rule.Policy.Name())
		if found && n.Policy.ID == w.rule.Policy.ID && (n.LimitFrom == "" || n.LimitFrom == own.LimitFrom.Name) {
			return n
		}
	}
	return Newest{w.rule.Policy, own.Variants, own.LimitFrom.Name, own.Unlimited}
}

// own returns the policy with the request's own limit.
func (w *Waiter) own(n *Newest) (*limiter.Policy, Status) {
	limit, fallback := w.limit, n.Policy.Limit()
	if !w.given || n.LimitFrom == "" {
		limit = fallback
		if n.Unlimited {
			limit = unlimited
		}
	}
	switch limit {
	case unlimited:
		return n.Policy, Unlimited
	case 0:
		return n.Variants.none, Blocked
	case fallback:
		return n.Policy, Counts
	}
	policy, err := n.Variants.withLimit(limit, n.Policy.Settings.Burst)
	switch {
	case err == nil:
		return policy, Counts
	case n.Unlimited:
		return n.Policy, Unlimited
	}
	return n.Policy, Counts // the limit is not possible
}

// override returns the override that applies to the request; nil: none does.
func (w *Waiter) override() *overrides.Entry {
	live := w.set.Overrides
	if live == nil || live.Applied.Load() == nil {
		return nil
	}
	if block := live.BlockOf(w.client); block != nil {
		return block
	}
	found, ranges := live.Find(w.rule.Policy.Name(), w.key)
	if ranges == nil || isExemption(found) {
		return found
	}
	return w.set.underRanges(found, ranges, w.addresses)
}

// Block returns the override that blocks the request now, and the result of its check; nil: none does.
func (w *Waiter) Block() (block *overrides.Entry, result limiter.Result) {
	if e := w.override(); e != nil && e.Action == overrides.Block {
		return e, BlockResult(e, w.set.Overrides.Now())
	}
	return nil, result
}
