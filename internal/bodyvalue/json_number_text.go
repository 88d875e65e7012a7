package bodyvalue

import (
	"strconv"
	"strings"
)

// Bounds of the numbers that all parsers read alike.
const (
	maxNumber   = 64      // bytes
	maxWhole    = 1 << 53 // written as digits alone
	maxDigits   = 15      // significant ones, of all other numbers
	maxWritten  = 17      // with zeros behind them: writers of 64-bit floats write no more
	maxPower    = 21      // the largest of those is 10^21
	minPower    = -6      // and the smallest one 10^-6
	hugePower   = 1 << 20 // what larger exponents are cut to
	decimalBase = 10
)

// numberText returns a number that is valid JSON in its only form, see [JSONReader.Value]. It is false for one that
// parsers round in different ways: node and Go beyond 2^53, PHP and Perl after 15 digits. simdjson has read 0 for
// 1.000000000000000000, and for 100000000000000000.0.
func numberText(raw []byte) (string, bool) {
	if len(raw) > maxNumber {
		return "", false
	}
	text, sign := string(raw), ""
	if text[0] == '-' {
		text, sign = text[1:], "-"
	}
	mantissa, exponent, hasExponent := text, "", false
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, exponent, hasExponent = text[:i], text[i+1:], true
	}
	whole, fraction, hasPoint := strings.Cut(mantissa, ".")
	if !hasPoint && !hasExponent {
		n, err := strconv.ParseUint(text, decimalBase, 64)
		if n == 0 {
			sign = ""
		}
		return sign + text, err == nil && n <= maxWhole
	}
	written := len(strings.TrimLeft(whole+fraction, "0"))
	fraction = strings.TrimRight(fraction, "0")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" { // beyond 1e308 Perl makes NaN of 0
		if power := powerOf(exponent); power < -maxPower || power > maxPower {
			return "", false
		}
		return "0", true
	}
	if len(digits) > maxDigits || written > maxWritten {
		return "", false
	}
	power := powerOf(exponent) - len(fraction) // of ten, which the last digit counts
	kept := strings.TrimRight(digits, "0")
	power += len(digits) - len(kept)
	first := power + len(kept) - 1 // the power of ten that the first digit counts
	if first < minPower || first > maxPower || first == maxPower && kept != "1" {
		return "", false
	}
	return sign + plainDecimal(kept, power), true
}

// powerOf returns an exponent; of none 0. Large ones are cut.
func powerOf(exponent string) int {
	if exponent == "" {
		return 0
	}
	n, err := strconv.Atoi(exponent)
	if err != nil { // it is out of range
		n = hugePower
		if exponent[0] == '-' {
			n = -hugePower
		}
	}
	return max(-hugePower, min(n, hugePower))
}

// plainDecimal returns digits, of which the last one counts a power of ten, without an exponent.
func plainDecimal(digits string, power int) string {
	point := len(digits) + power
	switch {
	case power >= 0:
		return digits + strings.Repeat("0", power)
	case point > 0:
		return digits[:point] + "." + digits[point:]
	}
	return "0." + strings.Repeat("0", -point) + digits
}

// positiveWhole returns a number's text as a number; 0 if it is not whole or not above 0. What is above [largestNumber] is that number.
func positiveWhole(text string) int64 {
	if text[0] == '-' || strings.IndexByte(text, '.') >= 0 {
		return 0
	}
	n, err := strconv.ParseInt(text, decimalBase, 64)
	if err != nil { // the digits alone are beyond 64 bits
		return largestNumber
	}
	return min(n, largestNumber)
}
