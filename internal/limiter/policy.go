package limiter

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

// Policy is a rule that stores decide by: valid settings and the numbers derived from them. It never
// changes; any number of requests and configurations may use it at once.
type Policy struct {
	// Settings are those that the policy was made of.
	Settings Settings

	kernel.Terms

	// What was last made of the policy is cached in it, so that no request makes or looks up the same twice.
	Table atomic.Value           // *memory.Table: where the memory store that last decided by the policy keeps its states
	Local atomic.Pointer[Policy] // what a node decides by in an outage
}

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
	id := s.Name + ":" + a.Code + windowCode(time.Duration(t.Window*t.Tick)*time.Microsecond, t.Tick) + s.calendar().Code()
	s.Ban = slices.Clone(s.Ban)
	p := &Policy{Settings: s, Terms: kernel.Terms{
		Algorithm: a, Params: t, ID: id, Ban: newBan(s), Refunds: s.Refunds, CountsRunning: s.MaxConcurrent != 0,
	}}
	if s.Lease > 0 {
		p.Lease, p.Salt = longestLeaseOf(&s, a, &t), saltOf(s.String())
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
	if other.ID != p.ID {
		return nil, &FieldError{"Limit", decimal(limit),
			fmt.Sprintf("counts in another unit of time than the policy's own limit of %d", p.Limit())}
	}
	return other, nil
}

// withLimit returns the policy with another limit and burst. It counts in other states if they are too
// large for the policy's unit of time.
func (p *Policy) withLimit(limit, burst int64) (*Policy, error) {
	s := p.Settings
	if s.Burst = burst; p.CountsRunning {
		s.MaxConcurrent = limit
	} else {
		s.Limit = limit
	}
	return newPolicy(s, p.Params.Tick)
}

// MonthsFrom returns the policy, which counts in calendar months, with months that begin on a day from 1 to 31. Each day has
// states of its own.
func (p *Policy) MonthsFrom(day int) (*Policy, error) {
	s := p.Settings
	s.Calendar = kernel.MonthFrom(day).String()
	return newPolicy(s, p.Params.Tick)
}

// With returns a policy of other numbers, which counts in the same states and leases nothing.
func (p *Policy) With(t kernel.Params) *Policy {
	other := &Policy{Settings: p.Settings, Terms: p.Terms}
	other.Params, other.Lease, other.Salt = t, 0, 0
	return other
}

// None returns the policy with a capacity of 0, for results of requests that are refused without a
// decision. No store decides by it.
func (p *Policy) None() *Policy {
	t := p.Params
	t.Capacity = 0
	return p.With(t)
}

// LargestLimit returns the largest limit and burst that [Policy.WithLimit] takes. It tries about fifty.
func (p *Policy) LargestLimit() int64 {
	least, above := p.Limit(), int64(kernel.Precision)
	for least+1 < above {
		middle := least + (above-least)/2
		if other, err := p.withLimit(middle, 0); err == nil && other.ID == p.ID {
			least = middle
		} else {
			above = middle
		}
	}
	return least
}

// Name returns the policy's name.
func (p *Policy) Name() string { return p.Settings.Name }

// Bans reports whether the policy bans clients.
func (p *Policy) Bans() bool { return p.Ban != nil }

// Limit returns the units that the policy allows per window, or of requests that run at once.
func (p *Policy) Limit() int64 { return p.Params.Limit }

// Capacity returns the most units that a quota can have: the limit, for buckets the burst.
func (p *Policy) Capacity() int64 { return p.Params.Capacity }

// IsBucket reports whether the policy earns its capacity unit by unit, and not by windows.
func (p *Policy) IsBucket() bool { return p.Algorithm.Earns }

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
func (p *Policy) MostReserve() int64 { return p.Params.MostReserve() }

// LongestLease returns for how long a node may lease units of the policy at most: as [Settings.Lease], but
// no longer than a hundredth of the window; with sliding_window_log a hundredth of half the window, and with a bucket
// a hundredth of the time in which a full one drains. It is 0 if there are no leases, or these would be too short.
func (p *Policy) LongestLease() time.Duration { return p.Lease }

func newBan(s Settings) *kernel.Ban {
	if len(s.Ban) == 0 {
		return nil
	}
	b := &kernel.Ban{After: int64(max(1, s.BanAfter)), Window: s.Window.Microseconds(),
		ID: s.Name + ":" + kernel.BanCode + windowCode(s.Window, 1)}
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
