package bodyvalue

// number is a number of a document while its digits pass. It keeps the first 18, and of the others how many
// there are and whether one is not 0.
type number struct {
	part     part
	negative bool

	mantissa uint64
	scale    int64 // the power of ten that the mantissa counts
	more     bool  // a digit beyond the mantissa is not 0

	exponent         int64
	exponentNegative bool
}

// part is the part of a number that the last character was of.
type part uint8

const (
	partStart        part = iota
	partSign              // a digit must follow
	partZero              // a leading zero: no digit may follow
	partInteger           // digits
	partPoint             // a digit must follow
	partFraction          // digits
	partE                 // a sign or a digit must follow
	partExponentSign      // a digit must follow
	partExponent          // digits
)

// maxExponent bounds exponents. No body has as many digits as could bring such a number back into range.
const maxExponent = 1 << 55

// next takes a character. It is false for one that does not continue the number.
func (n *number) next(c byte) bool {
	if c-'0' <= 9 {
		return n.digit(c - '0')
	}
	switch {
	case c == '-' && n.part == partStart:
		n.part, n.negative = partSign, true
	case c == '.' && (n.part == partZero || n.part == partInteger):
		n.part = partPoint
	case (c == 'e' || c == 'E') && (n.part == partZero || n.part == partInteger || n.part == partFraction):
		n.part = partE
	case (c == '+' || c == '-') && n.part == partE:
		n.part, n.exponentNegative = partExponentSign, c == '-'
	default:
		return false
	}
	return true
}

func (n *number) digit(d byte) bool {
	switch n.part {
	case partZero:
		return false
	case partStart, partSign:
		n.part = partInteger
		if d == 0 {
			n.part = partZero
		}
	case partPoint:
		n.part = partFraction
	case partE, partExponentSign:
		n.part = partExponent
	}
	const full = 1e17 // one more digit fits
	switch {
	case n.part == partExponent:
		n.exponent = min(n.exponent*10+int64(d), maxExponent)
	case n.mantissa >= full:
		n.more = n.more || d != 0
		if n.part != partFraction {
			n.scale++
		}
	default:
		n.mantissa = n.mantissa*10 + uint64(d)
		if n.part == partFraction {
			n.scale--
		}
	}
	return true
}

// complete reports whether the number may end here.
func (n *number) complete() bool {
	return n.part == partZero || n.part == partInteger || n.part == partFraction || n.part == partExponent
}

// decimal returns the number. It is false for one below 0 or above [largestNumber].
func (n *number) decimal() (decimal, bool) {
	d := decimal{digits: n.mantissa, places: -n.scale - n.exponent, more: n.more}
	if n.exponentNegative {
		d.places = n.exponent - n.scale
	}
	switch {
	case d.digits == 0:
		return decimal{}, true
	case n.negative:
		return decimal{}, false
	}
	for ; d.places < 0; d.places++ {
		if d.digits > largestNumber {
			return decimal{}, false
		}
		d.digits *= 10
	}
	var alone total
	alone.add(&addend{decimal: d, factor: factorUnit})
	_, ok := alone.roundUp()
	return d, ok
}
