package redisratelimit

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	_ "time/tzdata" // nodes of one build have the same zones where machines have no table

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
)

// handlerSettings are the parsed options of a handler that are texts in JSON.
type handlerSettings struct {
	exempt  []netip.Prefix
	headers quotaheader.Formats
	usage   gate.UsagePath
}

// check refuses options with which no request could be served, and keeps the parsed ones. Defaults must be set.
func (h *Handler) check() error {
	if err := h.checkPolicies(); err != nil {
		return err
	}
	return firstError(handlerOptions, func(o *option[Handler]) error {
		if o.check == nil {
			return nil
		}
		return o.check(h)
	})
}

// checkPolicies refuses a handler without policies, and invalid policies. Defaults must be set.
func (h *Handler) checkPolicies() error {
	if len(h.Policies) == 0 {
		return errors.New("policies: name at least one, with a limit and a window")
	}
	common := &Policy{Common: h.Common}
	err := firstError(policyOptions, func(o *option[Policy]) error {
		if !o.common || o.check == nil {
			return nil
		}
		return o.check(common)
	})
	if err != nil {
		return err
	}
	for i, p := range h.Policies {
		if p == nil {
			return fmt.Errorf("policies[%d]: null; write a policy with a limit and a window, or leave it out", i)
		}
		if err := p.check(); err != nil {
			return err
		}
	}
	return h.checkRepeated()
}

// checkRepeated refuses policies of a handler that exclude each other.
func (h *Handler) checkRepeated() error {
	if len(h.Policies) > 1 && slices.ContainsFunc(h.Policies, func(p *Policy) bool { return p.Wait != nil }) {
		return errWaitsBeside
	}
	var blocks policyBlocks
	for _, p := range h.Policies {
		if err := blocks.add(p); err != nil {
			return err
		}
	}
	return nil
}

var errWaitsBeside = errors.New("wait: other policies of the directive would be charged after the wait; put them into a directive before")

// policyBlocks are the blocks of a handler so far. The zero value has none.
type policyBlocks struct {
	number int
	waits  bool
	times  map[string]int             // by policy
	lonely map[string]*option[Policy] // of a policy: an option that cannot apply to one of several blocks alone
}

// add adds a block, and refuses two blocks of one policy if one of them has an option that cannot apply to one block alone:
// a request takes from both blocks by one check. It refuses a wait beside other policies.
func (b *policyBlocks) add(p *Policy) error {
	if b.times == nil {
		b.times, b.lonely = map[string]int{}, map[string]*option[Policy]{}
	}
	b.number++
	b.times[p.Name]++
	if b.waits = b.waits || p.Wait != nil; b.waits && b.number > 1 {
		return errWaitsBeside
	}
	if o := p.lonelyOption(); o != nil {
		b.lonely[p.Name] = o
	}
	if o := b.lonely[p.Name]; o != nil && b.times[p.Name] > 1 {
		return fmt.Errorf("policy %q: is given several times in this handler, and one has %s; %s", p.Name, o.name, o.once)
	}
	return nil
}

// lonelyOption returns an option that is given and cannot apply to one of several blocks of a policy; nil: there is none.
func (p *Policy) lonelyOption() *option[Policy] {
	for i := range policyOptions {
		if o := &policyOptions[i]; o.once != "" && o.isSet(p) {
			return o
		}
	}
	return nil
}
