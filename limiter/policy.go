package limiter

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// Settings says what a policy allows.
type Settings struct {
	// Name is the policy's identity, [A-Za-z0-9_-]{1,64}.
	Name string

	// Algorithm is one of [Algorithms]; empty: [DefaultAlgorithm].
	Algorithm string

	// Limit is the units allowed per window, from 1.
	Limit int64

	// Window is the window's length, whole microseconds, from 1ms.
	Window time.Duration

	// Calendar makes the windows periods of the calendar: one of [Calendars]. Weeks begin on Monday. There
	// is no Window then; [Policy.Settings] has the length of the longest period in its place. The algorithm
	// is [FixedWindow], which may be left out. Default: windows of one length.
	Calendar string

	// Location is the time zone of calendar periods, nil: UTC. It must not be [time.Local], which may differ
	// from node to node. The counts of a policy go on where it changes.
	Location *time.Location

	// MaxConcurrent is the units of the requests that may run at once, up to 1,000,000,000. It counts them
	// from their start to their end, and so excludes all fields about windows and what happens in them:
	// Algorithm, Limit, Window, Calendar, Location, Burst, MaxDelay, Ban and Lease. 0: windows count.
	MaxConcurrent int64

	// NodeTimeout is how long Redis counts the running requests of a process that it has lost contact
	// with, from [MinNodeTimeout] to [MaxNodeTimeout], in whole microseconds. Only with MaxConcurrent; 0
	// is [DefaultNodeTimeout].
	NodeTimeout time.Duration

	// Burst is the capacity of a bucket in units, from 1; 0 means the limit. The window
	// algorithms have none.
	Burst int64

	// MaxDelay makes a bucket a queue: a request that has to wait this long or less passes with a Delay.
	// Whole microseconds; 0 is strict spacing, nil the plain bucket.
	MaxDelay *time.Duration

	// Ban refuses a client whose requests are denied BanAfter times within a window, whatever its
	// count: at its first offense for the first duration, then for the next ones, the last again and
	// again. Offenses are forgotten the longest duration after a ban has ended. Each from [MinBan] to
	// [MaxBan], in whole microseconds and ascending, at most [MaxBans]; none: no client is banned.
	Ban []time.Duration

	// BanAfter is how many denials are an offense, up to [MaxBanAfter]; 0 is 1.
	BanAfter int

	// Lease lets [Failover] take units of keys that are asked for again and again ahead of their requests,
	// and decide these by itself: for at most so long, and at most a hundredth of the window. From
	// [MinLease] to [MaxLease]; 0: every request is decided by the shared store. Never is more admitted
	// than without. Policies that ban, queue or refund have none.
	Lease time.Duration

	// Dynamic reports that requests bring limits and bursts of their own, see [Policy.WithLimit].
	// Windows of an hour and more then count in milliseconds whatever the limit, so that large and
	// small limits use the same states.
	Dynamic bool
}

// Policy is a rule that stores decide by: valid settings and the numbers derived from them. Its rule
// never changes; any number of requests and configurations may use it at once.
type Policy struct {
	settings  Settings
	algorithm *algorithm
	params    params
	id        string
	ban       *ban                   // nil: none
	lease     time.Duration          // the longest on this node; 0: none
	salt      uint64                 // mixed into hashes of keys
	derived   atomic.Pointer[any]    // cached by Derived
	fraction  float64                // of the limits it was scaled from; 0: not scaled
	ahead     int64                  // microseconds that Redis's clock is ahead of the one it decides by
	local     atomic.Pointer[Policy] // it by the last local fraction and clock
	refunds   atomic.Bool            // charges may be undone: no deny cache
	table     atomic.Pointer[table]  // of the last Memory, cached
}

// MinWindow is the shortest window.
const MinWindow = time.Millisecond

// NewPolicy checks the settings and makes a policy of them. Its errors are a [*FieldError].
func NewPolicy(s Settings) (*Policy, error) { return newPolicy(s, 1) }

// newPolicy makes a policy whose tick is at least so many microseconds.
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
	length := s.Window
	if a.running {
		s.NodeTimeout = s.nodeTimeout()
		length = s.NodeTimeout
	}
	id := s.Name + ":" + a.code + windowCode(length, t.tick)
	s.Ban = slices.Clone(s.Ban)
	p := &Policy{settings: s, algorithm: a, params: t, id: id, ban: newBan(s)}
	if s.Lease > 0 {
		p.lease, p.salt = longestLeaseOf(&s, a, &t), saltOf(s.String())
	}
	return p, nil
}

const onlyBuckets = " has none; only token_bucket, leaky_bucket and gcra do"

// check reports which field is wrong by itself, or for the algorithm, which is nil for an unknown one.
func (s *Settings) check(a *algorithm) error {
	switch {
	case !validName(s.Name):
		return &FieldError{"Name", strconv.Quote(s.Name), "use 1 to 64 letters, digits, '_' and '-'"}
	case s.MaxConcurrent != 0 || s.NodeTimeout != 0:
		return s.checkRunning()
	case a == nil:
		return &FieldError{"Algorithm", strconv.Quote(s.Algorithm), fmt.Sprintf("use one of %v", Algorithms())}
	case s.Limit < 1:
		return &FieldError{"Limit", decimal(s.Limit), "use a whole number from 1"}
	case s.checkCalendar() != nil:
		return s.checkCalendar()
	case s.Window < MinWindow || s.Window%time.Microsecond != 0:
		return &FieldError{"Window", s.Window.String(), fmt.Sprintf("use a duration from %v, in whole microseconds", MinWindow)}
	case s.Burst < 0:
		return &FieldError{"Burst", decimal(s.Burst), "use a whole number from 1"}
	case s.Burst > 0 && !a.bursts:
		return &FieldError{"Burst", "", a.name + onlyBuckets}
	case s.MaxDelay != nil && !a.bursts:
		return &FieldError{"MaxDelay", "", a.name + onlyBuckets}
	case s.MaxDelay != nil && (*s.MaxDelay < 0 || *s.MaxDelay%time.Microsecond != 0):
		return &FieldError{"MaxDelay", s.MaxDelay.String(), "use a duration from 0, in whole microseconds"}
	}
	if err := s.checkLease(a); err != nil {
		return err
	}
	return s.checkBan()
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// WithLimit returns the policy with another [Policy.Limit] and burst (0: the limit), which counts in the same
// states. The error is a [*FieldError] that says what is wrong with them.
func (p *Policy) WithLimit(limit, burst int64) (*Policy, error) {
	other, err := p.withLimit(limit, burst)
	if err != nil {
		return nil, err
	}
	if other.id != p.id {
		return nil, &FieldError{"Limit", decimal(limit), fmt.Sprintf("counts in another unit of time than the policy's own limit of %d", p.Limit())}
	}
	other.refunds.Store(p.refunds.Load())
	return other, nil
}

// withLimit returns the policy with another limit and burst. It counts in other states where they are too
// large for the policy's unit of time.
func (p *Policy) withLimit(limit, burst int64) (*Policy, error) {
	s := p.settings
	if s.Burst = burst; p.CountsRunning() {
		s.MaxConcurrent = limit
	} else {
		s.Limit = limit
	}
	return newPolicy(s, p.params.tick)
}

// None returns the policy with a capacity of 0, for results of requests that are refused without a
// decision. No store decides by it.
func (p *Policy) None() *Policy {
	t := p.params
	t.capacity = 0
	return &Policy{settings: p.settings, algorithm: p.algorithm, params: t, id: p.id, ban: p.ban}
}

// LargestLimit returns the largest limit and burst that [Policy.WithLimit] takes. It tries about fifty.
func (p *Policy) LargestLimit() int64 {
	least, above := p.Limit(), int64(precision)
	for least+1 < above {
		middle := least + (above-least)/2
		if other, err := p.withLimit(middle, 0); err == nil && other.id == p.id {
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
func (p *Policy) Bans() bool { return p.ban != nil }

// Limit returns the units that the policy allows per window, or of requests that run at once.
func (p *Policy) Limit() int64 { return p.params.limit }

// Capacity returns the most units that a quota can have: the limit, for buckets the burst.
func (p *Policy) Capacity() int64 { return p.params.capacity }

// IsBucket reports whether the policy earns its capacity unit by unit, and not by windows.
func (p *Policy) IsBucket() bool { return p.algorithm.bursts }

// AllowRefunds allows charges of the policy to be undone ([Check].Refundable). A denial may then end
// early, so the deny cache leaves the policy out, except for bans. A queue and a policy of MaxConcurrent
// cannot refund: the error is a [*FieldError].
func (p *Policy) AllowRefunds() error {
	if p.CountsRunning() {
		return besideRunning("AllowRefunds")
	}
	if p.params.maxDelay >= 0 {
		return &FieldError{"MaxDelay", "", "a queue cannot refund; leave it out"}
	}
	if p.settings.Lease > 0 {
		return &FieldError{"Lease", "", "units that a node has leased cannot be refunded; leave it out"}
	}
	p.refunds.Store(true)
	return nil
}

// Derived returns what the function makes of the policy, cached from the first call on, so that no
// request makes or looks up the same twice. A program has one such function.
func (p *Policy) Derived(derive func(*Policy) any) any {
	if derived := p.derived.Load(); derived != nil {
		return *derived
	}
	derived := derive(p)
	p.derived.Store(&derived)
	return derived
}

// ID names the states that the policy counts in: its name and a short code of algorithm, window and
// tick. Policies that differ in limit or burst alone use the same states.
func (p *Policy) ID() string { return p.id }

// Equal reports whether two settings allow the same.
func (s Settings) Equal(other Settings) bool {
	s.setDefaults()
	other.setDefaults()
	sameDelay := s.MaxDelay == other.MaxDelay ||
		(s.MaxDelay != nil && other.MaxDelay != nil && *s.MaxDelay == *other.MaxDelay)
	return sameDelay && s.sameBans(&other) && s.sameCalendar(&other) && s.Lease == other.Lease && s.Name == other.Name && s.Algorithm == other.Algorithm &&
		s.Limit == other.Limit && s.Window == other.Window && s.MaxConcurrent == other.MaxConcurrent && s.nodeTimeout() == other.nodeTimeout() && s.Burst == other.Burst && s.Dynamic == other.Dynamic
}

// String returns the settings as text, for messages.
func (s Settings) String() string {
	if s.MaxConcurrent != 0 {
		return fmt.Sprintf("max_concurrent %d, node_timeout %v", s.MaxConcurrent, s.nodeTimeout())
	}
	window := s.Window.String()
	if s.Calendar != "" {
		window = s.Calendar + " " + s.Zone()
	}
	text := fmt.Sprintf("limit %d, window %s, algorithm %s", s.Limit, window, s.Algorithm)
	if s.Burst > 0 {
		text += fmt.Sprintf(", burst %d", s.Burst)
	}
	if s.MaxDelay != nil {
		text += fmt.Sprintf(", max_delay %v", *s.MaxDelay)
	}
	if len(s.Ban) > 0 {
		text += fmt.Sprintf(", ban %v after %d", s.Ban, max(1, s.BanAfter))
	}
	if s.Lease > 0 {
		text += fmt.Sprintf(", lease %v", s.Lease)
	}
	return text
}

// smallerFraction reports whether a/b < c/d, for 0 <= a <= b and 0 <= c <= d.
func smallerFraction(a, b, c, d int64) bool {
	high1, low1 := bits.Mul64(uint64(a), uint64(d))
	high2, low2 := bits.Mul64(uint64(c), uint64(b))
	return high1 < high2 || (high1 == high2 && low1 < low2)
}

func validName(name string) bool {
	for _, r := range []byte(name) {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (r < '0' || r > '9') && r != '_' && r != '-' {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= 64
}

// windowCode writes a window in its largest whole unit, with the tick where it is not 1 µs.
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
