package limiter

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

// Policy is a rule that stores decide by: valid settings and the numbers derived from them. It never
// changes; any number of requests and configurations may use it at once.
type Policy struct {
	settings Settings
	rule     kernel.Rule
	derived  kernel.Slot
}

// Rule returns what the stores of this module decide by.
func (p *Policy) Rule() *kernel.Rule { return &p.rule }

// NewPolicy checks the settings and makes a policy of them. Its errors are a [*FieldError].
func NewPolicy(s Settings) (*Policy, error) { return newPolicy(s, 1) }

// newPolicy makes a policy whose tick is at least leastTick microseconds.
func newPolicy(s Settings, leastTick int64) (*Policy, error) {
	s.setDefaults()
	a := s.algorithm()
	if err := s.check(a); err != nil {
		return nil, err
	}
	t, err := newParams(s, a, leastTick)
	if err != nil {
		return nil, err
	}
	id := s.Name + ":" + a.Code + windowCode(time.Duration(t.Window*t.Tick)*time.Microsecond, t.Tick)
	s.Ban = slices.Clone(s.Ban)
	p := &Policy{settings: s, rule: kernel.Rule{Algorithm: a, Params: t, ID: id, Ban: newBan(s), Refunds: s.Refunds}}
	if s.Lease > 0 {
		p.rule.Lease, p.rule.Salt = longestLeaseOf(&s, a, &t), saltOf(s.String())
	}
	return p, nil
}

// WithLimit returns the policy with another [Policy.Limit] and burst (0: the limit), which counts in the same
// states. The error is a [*FieldError] that says what is wrong with them.
func (p *Policy) WithLimit(limit, burst int64) (*Policy, error) {
	other, err := p.withLimit(limit, burst)
	if err != nil {
		return nil, err
	}
	if other.rule.ID != p.rule.ID {
		return nil, &FieldError{"Limit", decimal(limit), fmt.Sprintf("counts in another unit of time than the policy's own limit of %d", p.Limit())}
	}
	return other, nil
}

// withLimit returns the policy with another limit and burst. It counts in other states if they are too
// large for the policy's unit of time.
func (p *Policy) withLimit(limit, burst int64) (*Policy, error) {
	s := p.settings
	if s.Burst = burst; p.CountsRunning {
		s.MaxConcurrent = limit
	} else {
		s.Limit = limit
	}
	return newPolicy(s, p.rule.Params.Tick)
}

// With returns a policy of other numbers, which counts in the same states and leases nothing.
func (p *Policy) With(t kernel.Params) *Policy {
	r := &p.rule
	return &Policy{settings: p.settings, rule: kernel.Rule{Algorithm: r.Algorithm, Params: t, ID: r.ID, Ban: r.Ban, Refunds: r.Refunds}}
}

// None returns the policy with a capacity of 0, for results of requests that are refused without a
// decision. No store decides by it.
func (p *Policy) None() *Policy {
	t := p.rule.Params
	t.Capacity = 0
	return p.With(t)
}

// LargestLimit returns the largest limit and burst that [Policy.WithLimit] takes. It tries about fifty.
func (p *Policy) LargestLimit() int64 {
	least, above := p.Limit(), int64(kernel.Precision)
	for least+1 < above {
		middle := least + (above-least)/2
		if other, err := p.withLimit(middle, 0); err == nil && other.rule.ID == p.rule.ID {
			least = middle
		} else {
			above = middle
		}
	}
	return least
}

// Settings returns the settings that the policy was made of. They must not be changed.
func (p *Policy) Settings() Settings { return p.settings }

// Name returns the policy's name.
func (p *Policy) Name() string { return p.settings.Name }

// Bans reports whether the policy bans clients.
func (p *Policy) Bans() bool { return p.rule.Ban != nil }

// Limit returns the units that the policy allows per window, or of requests that run at once.
func (p *Policy) Limit() int64 { return p.rule.Params.Limit }

// Capacity returns the most units that a quota can have: the limit, for buckets the burst.
func (p *Policy) Capacity() int64 { return p.rule.Params.Capacity }

// IsBucket reports whether the policy earns its capacity unit by unit, and not by windows.
func (p *Policy) IsBucket() bool { return p.rule.Algorithm.Earns }

// Derived returns what the function makes of the policy, cached from the first call on, so that no
// request makes or looks up the same twice. A program has one such function.
func (p *Policy) Derived(derive func(*Policy) any) any {
	if derived := p.derived.Load(); derived != nil {
		return derived
	}
	derived := derive(p)
	p.derived.Store(derived)
	return derived
}

// ID names the states that the policy counts in: its name and a short code of algorithm, window and
// tick. Policies that differ in limit or burst alone use the same states.
func (p *Policy) ID() string { return p.rule.ID }

// windowCode writes a window in its largest whole unit, with the tick if it is not 1 µs.
func windowCode(window time.Duration, tick int64) string {
	units := []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}}
	code := strconv.FormatInt(window.Microseconds(), 10) + "us"
	for _, unit := range units {
		if window%unit.length == 0 {
			code = strconv.FormatInt(int64(window/unit.length), 10) + unit.name
			break
		}
	}
	if tick != 1 {
		code += "-ms"
	}
	return code
}

// MostReserve returns the largest [Check].Reserve of the policy with which a request of one unit can pass.
func (p *Policy) MostReserve() int64 { return p.rule.Params.MostReserve() }

// CountsRunning reports whether the policy counts the requests that run ([Settings].MaxConcurrent). A
// caller that lets a request through has to call EndRunning of the store when it ends.
func (p *Policy) CountsRunning bool { return p.rule.CountsRunning }

// LongestLease returns for how long a node may lease units of the policy at most: as [Settings.Lease], but
// no longer than a hundredth of the window; of the half of it with sliding_window_log, and of the time in
// which a full bucket drains. It is 0 if there are no leases, or these would be too short.
func (p *Policy) LongestLease() time.Duration { return p.rule.Lease }

func newBan(s Settings) *kernel.Ban {
	if len(s.Ban) == 0 {
		return nil
	}
	b := &kernel.Ban{After: int64(max(1, s.BanAfter)), Window: s.Window.Microseconds(), ID: s.Name + ":" + kernel.BanCode + windowCode(s.Window, 1)}
	for _, d := range s.Ban {
		b.Durations = append(b.Durations, d.Microseconds())
		b.Longest = max(b.Longest, d.Microseconds())
	}
	return b
}

// longestLeaseOf returns the longest lease of a policy's keys on this node: a log and a bucket may admit
// too little by as much as their leases last. It is 0 if leases would be too short.
func longestLeaseOf(s *Settings, a *kernel.Algorithm, p *kernel.Params) time.Duration {
	longest := p.LongestLease() * p.Tick
	switch {
	case a.Logs:
		longest /= 2
	case a.Earns:
		longest = min(longest, p.Full*p.Tick/100)
	}
	if d := min(s.Lease, time.Duration(longest)*time.Microsecond); d >= MinLease {
		return d
	}
	return 0
}

// saltOf returns what makes hashes of keys differ from policy to policy.
func saltOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}
