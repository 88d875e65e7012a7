package limiter

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"sync/atomic"
	"time"
)

// Settings says what a policy allows.
type Settings struct {
	// Name is the policy's identity, [A-Za-z0-9_-]{1,64}.
	Name string

	// Algorithm is one of [Algorithms].
	Algorithm string

	// Limit is the units allowed per window, from 1.
	Limit int64

	// Window is the window's length, whole microseconds, from 1ms.
	Window time.Duration

	// Burst is the capacity of a bucket in units, from 1; 0 means the limit. The window
	// algorithms have none.
	Burst int64

	// MaxDelay makes a leaky bucket a queue: a request that has to wait this long or less passes
	// with a Delay. Whole microseconds; 0 is strict spacing, nil the plain bucket.
	MaxDelay *time.Duration

	// Dynamic reports that requests bring limits and bursts of their own, see [Policy.WithLimit].
	// Windows of an hour and more then count in milliseconds whatever the limit, so that large and
	// small limits use the same states.
	Dynamic bool
}

// Policy is a rule that stores decide by: valid settings and the numbers derived from them. Its rule
// never changes; any number of requests and configurations may use it at once. It also caches what
// others derive from it, so that no request looks that up.
type Policy struct {
	settings  Settings
	algorithm *algorithm
	params    params
	id        string
	capacity  string                 // in decimal
	text      atomic.Pointer[string] // cached by Text
	fraction  float64                // of the limits it was scaled from; 0: not scaled
	local     atomic.Pointer[Policy] // it scaled by the last local fraction
	refunds   atomic.Bool            // charges may be undone: no deny cache
	table     atomic.Pointer[table]  // of the last Memory, cached
}

// params are a policy's numbers as the formulas take them; times count in ticks.
type params struct {
	limit    int64 // units per window
	window   int64
	capacity int64 // limit, or the burst of a bucket
	maxDelay int64 // -1: no queue
	maxDebt  int64 // of a bucket, in 1/window units
	tick     int64 // microseconds
}

// MinWindow is the shortest window.
const MinWindow = time.Millisecond

// precision is the bound below which doubles, and so Lua's numbers, hold every whole number.
const precision = 1 << 53

// NewPolicy checks the settings and makes a policy of them. Its errors name the option that is wrong
// and what would be right.
func NewPolicy(s Settings) (*Policy, error) {
	a := algorithmNamed(s.Algorithm)
	switch {
	case !validName(s.Name):
		return nil, fmt.Errorf("name %q: use 1 to 64 letters, digits, '_' and '-'", s.Name)
	case a == nil:
		return nil, fmt.Errorf("algorithm %q: use one of %v", s.Algorithm, Algorithms())
	case s.Limit < 1:
		return nil, fmt.Errorf("limit %d: use a whole number from 1", s.Limit)
	case s.Window < MinWindow || s.Window%time.Microsecond != 0:
		return nil, fmt.Errorf("window %v: use a duration from %v, in whole microseconds", s.Window, MinWindow)
	case s.Burst < 0:
		return nil, fmt.Errorf("burst %d: use a whole number from 1", s.Burst)
	case s.Burst > 0 && !a.bursts:
		return nil, fmt.Errorf("burst: %s has none; only token_bucket, leaky_bucket and gcra do", a.name)
	case s.MaxDelay != nil && !a.queues:
		return nil, fmt.Errorf("max_delay: %s has none; only leaky_bucket holds requests", a.name)
	case s.MaxDelay != nil && (*s.MaxDelay < 0 || *s.MaxDelay%time.Microsecond != 0):
		return nil, fmt.Errorf("max_delay %v: use a duration from 0, in whole microseconds", *s.MaxDelay)
	}
	t, err := newParams(s, a)
	if err != nil {
		return nil, err
	}
	id := s.Name + ":" + a.code + windowCode(s.Window, t.tick)
	return &Policy{settings: s, algorithm: a, params: t, id: id, capacity: strconv.FormatInt(t.capacity, 10)}, nil
}

// WithLimit returns the policy with another limit and burst (0: the limit), which counts in the same
// states. The error says what is wrong with them.
func (p *Policy) WithLimit(limit, burst int64) (*Policy, error) {
	s := p.settings
	s.Limit, s.Burst = limit, burst
	other, err := NewPolicy(s)
	switch {
	case err != nil:
		return nil, err
	case other.id != p.id:
		return nil, fmt.Errorf("limit %d: counts in another unit of time than the policy's own limit of %d", limit, p.settings.Limit)
	}
	other.refunds.Store(p.refunds.Load())
	return other, nil
}

// Settings returns the settings that the policy was made of.
func (p *Policy) Settings() Settings { return p.settings }

// Name returns the policy's name.
func (p *Policy) Name() string { return p.settings.Name }

// Capacity returns the most units that a quota can have: the limit, for buckets the burst.
func (p *Policy) Capacity() int64 { return p.params.capacity }

// IsBucket reports whether the policy earns its capacity unit by unit, and not by windows.
func (p *Policy) IsBucket() bool { return p.algorithm.bursts }

// AllowRefunds allows charges of the policy to be undone ([Check].Reserve). A denial may then end
// early, so the deny cache leaves the policy out. A queue cannot refund.
func (p *Policy) AllowRefunds() error {
	if p.params.maxDelay >= 0 {
		return errors.New("max_delay: a queue cannot refund what count_if does not count; use one of them")
	}
	p.refunds.Store(true)
	return nil
}

// CapacityText returns the capacity in decimal, formatted once for all answers.
func (p *Policy) CapacityText() string { return p.capacity }

// Text returns what the function writes for the policy, cached from the first call on for all
// answers that show the policy. The function must be the same every time.
func (p *Policy) Text(write func(*Policy) string) string {
	if text := p.text.Load(); text != nil {
		return *text
	}
	text := write(p)
	p.text.Store(&text)
	return text
}

// ID names the states that the policy counts in: its name and a short code of algorithm, window and
// tick. Policies that differ in limit or burst alone use the same states.
func (p *Policy) ID() string { return p.id }

// Equal reports whether two settings allow the same.
func (s Settings) Equal(other Settings) bool {
	sameDelay := s.MaxDelay == other.MaxDelay ||
		(s.MaxDelay != nil && other.MaxDelay != nil && *s.MaxDelay == *other.MaxDelay)
	s.MaxDelay, other.MaxDelay = nil, nil
	return sameDelay && s == other
}

// String writes the settings the way a Caddyfile does.
func (s Settings) String() string {
	text := fmt.Sprintf("limit %d, window %v, algorithm %s", s.Limit, s.Window, s.Algorithm)
	if s.Burst > 0 {
		text += fmt.Sprintf(", burst %d", s.Burst)
	}
	if s.MaxDelay != nil {
		text += fmt.Sprintf(", max_delay %v", *s.MaxDelay)
	}
	return text
}

// newParams converts the settings to ticks: microseconds if the formulas stay exact with them, else
// milliseconds. The condition is 2 * max(limit, burst) * window < 2^53 ticks, so that every
// intermediate value is a whole number that a double holds.
func newParams(s Settings, a *algorithm) (params, error) {
	t := params{limit: s.Limit, capacity: s.Limit, maxDelay: -1, tick: 1}
	if s.Burst > 0 {
		t.capacity = s.Burst
	}
	most, option := t.limit, "limit"
	if t.capacity > t.limit {
		most, option = t.capacity, "burst"
	}
	if a.maxLimit > 0 && most > a.maxLimit {
		return t, fmt.Errorf("limit %d: %s counts up to %d; use a smaller limit or another algorithm", most, a.name, a.maxLimit)
	}
	micros := s.Window.Microseconds()
	if !exact(most, micros) || (a.maxWindow > 0 && micros > a.maxWindow) || s.widelyDynamic() {
		t.tick = 1000
	}
	if micros%t.tick != 0 || (s.MaxDelay != nil && s.MaxDelay.Microseconds()%t.tick != 0) {
		return t, fmt.Errorf("%s %d in window %v: numbers this large are counted in milliseconds; use durations in whole milliseconds", option, most, s.Window)
	}
	t.window = micros / t.tick
	if !exact(most, t.window) {
		return t, fmt.Errorf("%s %d in window %v: 2 * %[1]s * window in milliseconds must be below 2^53; use a smaller %[1]s or window", option, most, s.Window)
	}
	if a.maxWindow > 0 && t.window > a.maxWindow {
		return t, fmt.Errorf("window %v: %s remembers up to %d milliseconds; use a shorter window or another algorithm", s.Window, a.name, a.maxWindow)
	}
	if s.MaxDelay != nil {
		t.maxDelay = s.MaxDelay.Microseconds() / t.tick
	}
	if longest := ceilDiv(t.capacity*t.window, t.limit); longest > precision/2/t.tick {
		if s.Burst == 0 {
			return t, fmt.Errorf("window %v: must be below 2^52 microseconds (142 years); use a shorter one", s.Window)
		}
		return t, errors.New("burst: the time to earn it must be below 2^52 microseconds (142 years); use a smaller burst or a shorter window")
	}
	t.maxDebt = mostDebt(t.limit, t.tick)
	if t.maxDelay > precision/2/t.tick {
		return t, errors.New("max_delay: must be below 2^52 microseconds (142 years)")
	}
	return t, nil
}

// widelyDynamic reports whether the limits that requests bring along may need milliseconds.
func (s *Settings) widelyDynamic() bool {
	return s.Dynamic && s.Window >= time.Hour && s.Window%time.Millisecond == 0 &&
		(s.MaxDelay == nil || *s.MaxDelay%time.Millisecond == 0)
}

// mostDebt returns the debt at which a bucket saturates: 2^52 in 1/window units, or as much as
// drains in 2^52 microseconds.
func mostDebt(limit, tick int64) int64 {
	drains := MaxCharge / tick
	if limit > MaxCharge/drains {
		return MaxCharge
	}
	return min(MaxCharge, limit*drains)
}

// exact reports whether 2 * units * ticks < 2^53.
func exact(units, ticks int64) bool {
	high, low := bits.Mul64(uint64(units), uint64(ticks))
	return high == 0 && low < precision/2
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
