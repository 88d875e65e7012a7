package limiter

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/calendar"
)

// params are a policy's numbers as the formulas take them; times count in ticks.
type params struct {
	limit    int64 // units per window
	window   int64
	capacity int64 // limit, or the burst of a bucket
	maxDelay int64 // -1: no queue
	maxDebt  int64 // of a bucket, in 1/window units
	full     int64 // ticks in which a full bucket drains
	tick     int64 // microseconds

	periods *calendar.Periods // instead of windows of one length; nil: none
}

// precision is the bound below which doubles, and so Lua's numbers, hold every whole number.
const precision = 1 << 53

// newParams converts the settings to ticks: microseconds if the formulas stay exact with them, else
// milliseconds. The condition is 2 * max(limit, burst) * window < 2^53 ticks, so that every
// intermediate value is a whole number that a double holds. The tick is at least leastTick.
func newParams(s Settings, a *algorithm, leastTick int64) (params, error) {
	switch {
	case s.Calendar != "":
		return newCalendarParams(s), nil
	case a.running:
		timeout := s.nodeTimeout().Microseconds()
		return params{limit: s.MaxConcurrent, capacity: s.MaxConcurrent, maxDelay: -1, tick: leastTick, window: timeout, full: timeout}, nil
	}
	t := params{limit: s.Limit, capacity: s.Limit, maxDelay: -1, tick: leastTick}
	if s.Burst > 0 {
		t.capacity = s.Burst
	}
	most, field := t.limit, "Limit"
	if t.capacity > t.limit {
		most, field = t.capacity, "Burst"
	}
	if a.maxLimit > 0 && most > a.maxLimit {
		return t, &FieldError{"Limit", decimal(most), fmt.Sprintf("%s counts up to %d; use a smaller limit or another algorithm", a.name, a.maxLimit)}
	}
	micros := s.Window.Microseconds()
	if !exact(most, micros) || (a.maxWindow > 0 && micros > a.maxWindow) || s.widelyDynamic() {
		t.tick = 1000
	}
	if micros%t.tick != 0 || (s.MaxDelay != nil && s.MaxDelay.Microseconds()%t.tick != 0) {
		return t, &FieldError{field, decimal(most), fmt.Sprintf("numbers this large in a window of %v are counted in milliseconds; use durations in whole milliseconds", s.Window)}
	}
	t.window = micros / t.tick
	if !exact(most, t.window) {
		return t, &FieldError{field, decimal(most), fmt.Sprintf("twice the number, multiplied by the window of %v in milliseconds, must be below 2^53; use a smaller number or window", s.Window)}
	}
	if a.maxWindow > 0 && t.window > a.maxWindow {
		return t, &FieldError{"Window", s.Window.String(), fmt.Sprintf("%s remembers up to %d milliseconds; use a shorter window or another algorithm", a.name, a.maxWindow)}
	}
	if s.MaxDelay != nil {
		t.maxDelay = s.MaxDelay.Microseconds() / t.tick
	}
	if t.full = ceilDiv(t.capacity*t.window, t.limit); t.full > precision/2/t.tick {
		if s.Burst == 0 {
			return t, &FieldError{"Window", s.Window.String(), "must be below 2^52 microseconds (142 years); use a shorter one"}
		}
		return t, &FieldError{"Burst", "", "the time to earn it must be below 2^52 microseconds (142 years); use a smaller burst or a shorter window"}
	}
	t.maxDebt = mostDebt(t.limit, t.tick)
	if t.maxDelay > precision/2/t.tick {
		return t, &FieldError{"MaxDelay", s.MaxDelay.String(), "must be below 2^52 microseconds (142 years); use a shorter one"}
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

// micros converts a duration in ticks to exact microseconds. The offset is the part below a tick of
// the instant (now_us in a script) that the duration begins at. 0 and Never stay what they are.
func (p *params) micros(ticks, offset int64) int64 {
	if ticks <= 0 {
		return ticks
	}
	return ticks*p.tick - offset
}

// MaxCharge is the most units that can be charged at once, 2^52. It is also the largest debt of a
// state in 1/window units, so that every sum of two of them is below the precision.
const MaxCharge = precision / 2

// addDebt adds a charge to units, up to the most there can be.
func addDebt(units, weight, most int64) int64 { return min(units+weight, max(units, most)) }

// ceilDiv returns the quotient a/b rounded up, for b > 0. For a < 1 it rounds toward zero; no
// formula passes such an a on.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
