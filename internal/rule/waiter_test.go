package rule

import (
	"net/netip"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
)

// places returns a policy as a configuration has it.
func places(t *testing.T, limit int64, from string, unlimitedWithout bool) Newest {
	t.Helper()
	p := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "places", MaxConcurrent: limit, Waits: true, Dynamic: from != ""}))(t)
	return Newest{p, NewVariants(p), from, unlimitedWithout}
}

// waiterOf returns the waiter of a request by a policy's rule, and the rule's set.
func waiterOf(t *testing.T, n *Newest, given string) (*Waiter, *Set) {
	t.Helper()
	numbers := numbers{Weight: 1, Variants: n.Variants, Unlimited: n.Unlimited}
	if n.LimitFrom != "" {
		numbers.LimitFrom = assert.NoError(ParsePlaceholder("max_concurrent", "{"+n.LimitFrom+"}"))(t)
	}
	set := NewSet([]Rule{{Policy: n.Policy, Key: assert.NoError(ParseKey("same", exact))(t), Numbers: numbers}})
	set.OnNeverSet = func(*Rule, string, string) { t.Error("an empty value is counted again") }
	set.Warn = func(*Rule, string, error) { t.Error("a value is warned of again") }
	r, repl := keyRequest("192.0.2.1", map[string]string{"plan": given})
	w := set.NewWaiter(&set.Rules[0], r, repl, nil, limiter.EncodeKey("same"))
	return w, set
}

// TestWaiter_Current decides by the settings of the configuration that runs now, with the limit that the request has brought.
func TestWaiter_Current(t *testing.T) {
	const plan, other = "plan", "other"
	fixed, dynamic := places(t, 2, "", false), places(t, 2, plan, false)
	for name, test := range map[string]struct {
		own    Newest
		given  string
		newest []Newest // none: the policy has gone
		status Status
		limit  int64
	}{
		"gone":                   {fixed, "", nil, Counts, 2},
		"the same":               {fixed, "", []Newest{fixed}, Counts, 2},
		"another limit":          {fixed, "", []Newest{places(t, 7, "", false)}, Counts, 7},
		"a placeholder now":      {fixed, "5", []Newest{places(t, 7, plan, false)}, Counts, 2},
		"no placeholder now":     {dynamic, "5", []Newest{places(t, 7, "", false)}, Counts, 7},
		"another placeholder":    {dynamic, "5", []Newest{places(t, 7, other, false)}, Counts, 5},
		"brought":                {dynamic, "5", []Newest{places(t, 7, plan, false)}, Counts, 5},
		"brought, as before":     {dynamic, "2", []Newest{places(t, 7, plan, false)}, Counts, 2},
		"brought, as now":        {dynamic, "7", []Newest{places(t, 7, plan, false)}, Counts, 7},
		"brought, gone":          {dynamic, "5", nil, Counts, 5},
		"not brought":            {dynamic, "", []Newest{places(t, 7, plan, false)}, Counts, 7},
		"not a number":           {dynamic, "many", []Newest{places(t, 7, plan, false)}, Counts, 7},
		"no limit any more":      {dynamic, "", []Newest{places(t, 1, plan, true)}, Unlimited, 1},
		"brought, none for rest": {dynamic, "3", []Newest{places(t, 1, plan, true)}, Counts, 3},
		"brought unlimited":      {dynamic, "unlimited", []Newest{dynamic}, Unlimited, 2},
		"brought none":           {dynamic, "0", []Newest{dynamic}, Blocked, 2},
		"impossible":             {dynamic, "9000000000000000000", []Newest{places(t, 7, plan, false)}, Counts, 7},
	} {
		w, set := waiterOf(t, &test.own, test.given)
		set.Newest = func(string) (n Newest, found bool) {
			if len(test.newest) == 0 {
				return n, false
			}
			return test.newest[0], true
		}
		p, status := w.Current()
		assert.ErrorIf(t, status != test.status || p.Limit() != test.limit || p.ID != test.own.Policy.ID,
			"%s: status %d, limit %d; want %d, %d", name, status, p.Limit(), test.status, test.limit)
	}
	w, set := waiterOf(t, &fixed, "")
	others := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "places", MaxConcurrent: 9}))(t)
	set.Newest = func(string) (Newest, bool) { return Newest{Policy: others, Variants: NewVariants(others)}, true }
	p, _ := w.Current()
	assert.Equal(t, p.Limit(), 2, "the limit, where the policy of the name counts something else now")
}

// TestWaiter_Current_overrides decides by what operators have set meanwhile.
func TestWaiter_Current_overrides(t *testing.T) {
	own, newest := places(t, 2, "", false), places(t, 7, "", false)
	w, set := waiterOf(t, &own, "")
	set.Overrides = overrides.NewLocal(overrides.Hooks{})
	set.Newest = func(string) (Newest, bool) { return newest, true }
	check := func(what string, status Status, limit int64) {
		t.Helper()
		p, got := w.Current()
		assert.ErrorIf(t, got != status || p.Limit() != limit, "%s: status %d, limit %d; want %d, %d", what, got, p.Limit(), status, limit)
		block, _ := w.Block()
		assert.Equal(t, block != nil, status == Blocked, "%s: a block", what)
	}
	target := overrides.Target{Policy: "places", Client: "same"}
	check("none", Counts, 7)
	for what, test := range map[string]struct {
		spec   overrides.Spec
		status Status
		limit  int64
	}{
		"limit":  {overrides.Spec{Action: overrides.Limit, Limit: 40}, Counts, 40},
		"block":  {overrides.Spec{Action: overrides.Block}, Blocked, 7},
		"exempt": {overrides.Spec{Action: overrides.Exempt}, Exempted, 7},
	} {
		assert.NoError(set.Overrides.Put(t.Context(), target, test.spec, 0))(t)
		check(what, test.status, test.limit)
	}
	everywhere := overrides.Target{Range: netip.MustParsePrefix("192.0.2.0/24")}
	assert.NoError(set.Overrides.Put(t.Context(), everywhere, overrides.Spec{Action: overrides.Block}, 0))(t)
	check("the client is blocked for all policies, whatever its key is", Blocked, 7)
	assert.Must(t, set.Overrides.Remove(t.Context(), everywhere))
	assert.Must(t, set.Overrides.Remove(t.Context(), target))
	check("removed", Counts, 7)
}
