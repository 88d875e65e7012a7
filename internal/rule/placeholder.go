package rule

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
)

// Placeholder is what a key is made of, or where a number comes from. [ParsePlaceholder] makes one; the zero
// value is none.
type Placeholder struct {
	// Name is without braces.
	Name string

	field   field
	empties *atomic.Int32 // requests in which it was empty, as long as it was in all; then below 0. Nil: not counted
}

// ParsePlaceholder reads the placeholder that an option's number comes from.
func ParsePlaceholder(option, text string) (Placeholder, error) {
	if text == "" {
		return Placeholder{}, nil
	}
	name, opened := strings.CutPrefix(text, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !opened || !closed || name == "" || strings.ContainsAny(name, "{}") {
		return Placeholder{}, fmt.Errorf("%s %s: use one placeholder such as {http.vars.plan_limit}", option, text)
	}
	return newPlaceholder(option, name)
}

// newPlaceholder returns the placeholder of a name. Any name may be one that map or vars sets, but those that
// Caddy replaces in a Caddyfile and those that are meant for one of them.
func newPlaceholder(option, name string) (Placeholder, error) {
	p := Placeholder{name, fieldOf(name), new(atomic.Int32)}
	if full := fullName(name); full != "" {
		return p, fmt.Errorf("%s: {%s} is of the Caddyfile; in JSON write {%s}", option, name, full)
	}
	return p, checkSpelling(option, name)
}

// firstRequests is in how many requests a placeholder is empty before its name is suspected.
const firstRequests = 100

// saw records the value that a request has.
func (p *Placeholder) saw(value string) {
	if p.empties == nil || p.empties.Load() < 0 {
		return
	}
	if value == "" {
		p.empties.Add(1)
	} else {
		p.empties.Store(math.MinInt32)
	}
}

// isSuspect reports, once, that the first requests had no value.
func (p *Placeholder) isSuspect() bool {
	if p.empties == nil {
		return false
	}
	n := p.empties.Load()
	return n >= firstRequests && p.empties.CompareAndSwap(n, math.MinInt32)
}

// suspect warns of a placeholder that was empty in all of the first requests.
func (s *Set) suspect(rule *Rule, option string, p *Placeholder) {
	if p.isSuspect() && s.OnNeverSet != nil {
		s.OnNeverSet(rule, option, p.Name)
	}
}
