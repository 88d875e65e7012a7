package limiter

import (
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

// mostDebt returns the debt at which a bucket saturates: 2^52 in 1/window units, or as much as
// drains in 2^52 microseconds.
func mostDebt(limit, tick int64) int64 {
	drains := maxCharge / tick
	if limit > maxCharge/drains {
		return maxCharge
	}
	return min(maxCharge, limit*drains)
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

// maxCharge is the most units that can be charged at once, 2^52. It is also the largest debt of a
// state in 1/window units, so that every sum of two of them is below the precision.
const maxCharge = precision / 2

// addDebt adds a charge to units, up to the most there can be.
func addDebt(units, weight, most int64) int64 { return min(units+weight, max(units, most)) }

// ceilDiv returns the quotient a/b rounded up, for b > 0. For a < 1 it rounds toward zero; no
// formula passes such an a on.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

func (p *params) reserve(reserve int64) int64 {
	if reserve > p.mostReserve() {
		return p.capacity
	}
	return reserve
}

// mostReserve returns the largest reserve with which a request can pass, if it takes one.
func (p *params) mostReserve() int64 {
	if p.maxDelay < 0 || p.maxDelay >= p.full {
		return p.capacity - 1
	}
	return min(p.capacity-1, p.maxDelay*p.limit/p.window)
}

// beyondQueue marks the remaining units of a queue in which those for others would wait too long, so that
// a request that reserves them finds nothing. It undoes itself. Lua twin: the end of decide in
// scripts/bucket.lua.
func beyondQueue(remaining int64) int64 { return -1 - remaining }

// instant formats an instant in ticks.
func (p *params) instant(ticks int64) string {
	return time.UnixMicro(ticks * p.tick).UTC().Format(time.RFC3339Nano)
}

// windowsBy returns how many windows have ended when a state resets. Transit time, or a clock
// slightly behind this one, moves a reset slightly past the boundary that it is at; counted for the
// next window it would cost a client a whole window.
func windowsBy(resets int64, t *params) int64 {
	const tolerance = 20 // a twentieth of a window
	return ceilDiv(resets-t.window/tolerance, t.window)
}
