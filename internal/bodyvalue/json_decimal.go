package bodyvalue

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Factor is what a number is multiplied by: a decimal from 0 to 10^6, in millionths.
type Factor uint64

const (
	factorPlaces        = 6
	factorUnit   Factor = 1e6 // 1
	maxFactor           = 1e6
)

// ParseFactor reads a decimal of at most 6 places from 0 to 10^6, without sign and exponent.
func ParseFactor(text string) (Factor, bool) {
	whole, places, point := strings.Cut(text, ".")
	n, err := strconv.ParseUint(whole, 10, 32)
	if err != nil || n > maxFactor || len(places) > factorPlaces {
		return 0, false
	}
	part := uint64(0)
	if point {
		if part, err = strconv.ParseUint(places, 10, 32); err != nil {
			return 0, false
		}
		for range factorPlaces - len(places) {
			part *= 10
		}
	}
	factor := Factor(n)*factorUnit + Factor(part)
	return factor, factor <= maxFactor*factorUnit
}

// RoundUp returns a number as JSON writes it, rounded up; false for a text that is no such number from 0 to 2^52.
func RoundUp(text string) (int64, bool) {
	var n number
	for i := range len(text) {
		if !n.next(text[i]) {
			return 0, false
		}
	}
	d, ok := n.decimal()
	if !ok || !n.complete() {
		return 0, false
	}
	rounded, err := sumOf([]addend{{decimal: d, factor: factorUnit}})
	return rounded, err == nil
}

// decimal is a number from 0 to [largestNumber]: its first 18 digits, and how many of them stand behind the point.
type decimal struct {
	digits uint64 // below 10^18
	places int64  // from 0
	more   bool   // it is larger, by less than one in the last of the digits
}

// addend is a term of a sum with its number.
type addend struct {
	decimal
	factor Factor
	minus  bool
}

// sumOf adds terms up, which it sorts. The sum is rounded up, or [errRange].
func sumOf(addends []addend) (int64, error) {
	slices.SortFunc(addends, func(a, b addend) int { return cmp.Compare(b.places, a.places) })
	var sum total
	for i := range addends {
		sum.add(&addends[i])
	}
	if n, ok := sum.roundUp(); ok {
		return n, nil
	}
	return 0, errRange
}

// total is a sum of decimals. Those with the most places must be added first: then what is behind the
// places of the next one only decides whether the sum is rounded up, and 128 bits hold the rest of any 16
// terms. The zero value is 0.
type total struct {
	hi, lo uint64 // whole units, in two's complement
	places int64  // of the units behind the point
	part   bool   // the sum is larger than the units, by less than one
}

// add adds a term. It is exact, but that a number of more than 18 digits is rounded after them: up, and in a
// term with a minus down, so that no sum is too small.
func (t *total) add(a *addend) {
	t.round(a.places + factorPlaces)
	digits := a.digits
	if a.more && !a.minus {
		digits++
	}
	hi, lo := bits.Mul64(digits, uint64(a.factor))
	var carry uint64
	if a.minus {
		t.lo, carry = bits.Sub64(t.lo, lo, 0)
		t.hi, _ = bits.Sub64(t.hi, hi, carry)
		return
	}
	t.lo, carry = bits.Add64(t.lo, lo, 0)
	t.hi, _ = bits.Add64(t.hi, hi, carry)
}

// round makes the units those of fewer places, rounded down.
func (t *total) round(places int64) {
	const digits = 18                     // that fit into a divisor; twice as many leave nothing of the units
	negative := uint64(int64(t.hi) >> 63) // all bits: -1-x is rounded instead of x
	for behind := min(t.places-places, 2*digits); behind > 0; behind -= digits {
		divisor := uint64(1)
		for range min(behind, digits) {
			divisor *= 10
		}
		hi, lo := t.hi^negative, t.lo^negative
		lo, rest := bits.Div64(hi%divisor, lo, divisor)
		t.hi, t.lo = hi/divisor^negative, lo^negative
		t.part = t.part || rest != negative&(divisor-1)
	}
	t.places = places
}

// roundUp returns the sum as a whole number, rounded up, or 0 for one below. It is false for one above [largestNumber].
func (t *total) roundUp() (int64, bool) {
	t.round(0)
	switch {
	case int64(t.hi) < 0:
		return 0, true
	case t.hi > 0 || t.lo > largestNumber:
		return 0, false
	case t.part:
		t.lo++
	}
	return int64(t.lo), t.lo <= largestNumber
}
