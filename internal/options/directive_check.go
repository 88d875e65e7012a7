package options

import (
	"errors"
	"fmt"
	"slices"
)

// SetDefaults sets options that were left out, except the fail mode, which comes from the app.
func (d *Directive) SetDefaults() {
	d.unnamed = slices.ContainsFunc(d.Policies, func(p *Policy) bool { return p != nil && p.Name == "" })
	d.inherit(&commonDefaults)
	for _, p := range d.Policies {
		if p != nil { // which check refuses
			p.setDefaults(&d.Common)
		}
	}
	for i := range handlerOptions {
		if fill := handlerOptions[i].fill; fill != nil {
			fill(d)
		}
	}
}

// Check refuses options with which no request could be served, and keeps the parsed ones. Defaults must be set.
func (d *Directive) Check() error {
	if err := d.checkPolicies(); err != nil {
		return err
	}
	return firstError(handlerOptions, func(o *option[Directive]) error {
		if o.check == nil {
			return nil
		}
		return o.check(d)
	})
}

// checkPolicies refuses a handler without policies, and invalid policies. Defaults must be set.
func (d *Directive) checkPolicies() error {
	if len(d.Policies) == 0 {
		return errors.New("policies: name at least one, with a limit and a window")
	}
	common := &Policy{Common: d.Common}
	err := firstError(policyOptions, func(o *option[Policy]) error {
		if !o.common || o.check == nil {
			return nil
		}
		return o.check(common)
	})
	if err != nil {
		return err
	}
	for i, p := range d.Policies {
		if p == nil {
			return fmt.Errorf("policies[%d]: null; write a policy with a limit and a window, or leave it out", i)
		}
		if err := p.check(); err != nil {
			return err
		}
	}
	return d.checkRepeated()
}

// checkRepeated refuses policies of a handler that exclude each other.
func (d *Directive) checkRepeated() error {
	if len(d.Policies) > 1 && slices.ContainsFunc(d.Policies, func(p *Policy) bool { return p.Wait != nil }) {
		return errWaitsBeside
	}
	var blocks policyBlocks
	for _, p := range d.Policies {
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
