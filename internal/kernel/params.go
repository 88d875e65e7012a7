package kernel

import (
	"math/bits"
	"time"
)

// Params are a policy's numbers as the formulas take them; times count in ticks.
type Params struct {
	Limit    int64 // units per window
	Window   int64
	Capacity int64 // limit, or the burst of a bucket
	MaxDelay int64 // or NoQueue
	MaxDebt  int64 // of a bucket, in 1/window units
	Full     int64 // ticks in which a full bucket drains
	Tick     int64 // microseconds

	Periods *Periods // instead of windows of one length; nil: none

	Fraction float64 // of the limits that these were scaled from; 0: not scaled
	Ahead    int64   // microseconds that Redis's clock is ahead of the one that the periods are by
}

// NoQueue is the MaxDelay of a policy that holds no requests.
const NoQueue = -1

// Precision is the bound below which doubles, and so Lua's numbers, hold every whole number.
const Precision = 1 << 53

// MostDebt returns the debt at which a bucket saturates: 2^52 in 1/window units, or as much as
// drains in 2^52 microseconds.
func MostDebt(limit, tick int64) int64 {
	drains := MaxCharge / tick
	if limit > MaxCharge/drains {
		return MaxCharge
	}
	return min(MaxCharge, limit*drains)
}

// Exact reports whether 2 * units * ticks < 2^53.
func Exact(units, ticks int64) bool {
	high, low := bits.Mul64(uint64(units), uint64(ticks))
	return high == 0 && low < Precision/2
}

// Duration converts ticks, counted from an instant that is an offset behind its tick; [Never] stays what it is, which is limiter.Never.
func (p *Params) Duration(ticks, offset int64) time.Duration {
	if ticks <= 0 {
		return time.Duration(ticks)
	}
	return time.Duration(ticks*p.Tick-offset) * time.Microsecond
}

// MaxCharge is the most units that can be charged at once, 2^52. It is also the largest debt of a
// state in 1/window units, so that every sum of two of them is below the precision.
const MaxCharge = Precision / 2

// addDebt adds a charge to units, up to the most there can be.
func addDebt(units, weight, most int64) int64 { return min(units+weight, max(units, most)) }

// CeilDiv returns the quotient a/b rounded up, for b > 0. For a < 1 it rounds toward zero; no
// formula passes such an a on.
func CeilDiv(a, b int64) int64 { return (a + b - 1) / b }

// Reserve returns the units that must stay for others: all of the capacity if a queue cannot hold them.
func (p *Params) Reserve(reserve int64) int64 {
	if reserve > p.MostReserve() {
		return p.Capacity
	}
	return reserve
}

// MostReserve returns the largest reserve with which a request can pass, if it takes one.
func (p *Params) MostReserve() int64 {
	if p.MaxDelay == NoQueue || p.MaxDelay >= p.Full {
		return p.Capacity - 1
	}
	return min(p.Capacity-1, p.MaxDelay*p.Limit/p.Window)
}

// instant formats an instant in ticks.
func (p *Params) instant(ticks int64) string {
	return time.UnixMicro(ticks * p.Tick).UTC().Format(time.RFC3339Nano) //nolint:forbidigo // for people
}

// windowsBy returns how many windows have ended when a state resets. Transit time, or a clock
// slightly behind this one, moves a reset slightly past the boundary that it is at; counted for the
// next window it would cost a client a whole window.
func windowsBy(resets int64, t *Params) int64 {
	const tolerance = 20 // a twentieth of a window
	return CeilDiv(resets-t.Window/tolerance, t.Window)
}
