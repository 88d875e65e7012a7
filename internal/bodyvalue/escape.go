package bodyvalue

// EscapeLength is the length of a percent-encoded byte.
const EscapeLength = len("%41")

// Unescape returns the byte that is percent-encoded at the begin of a text; false: there is none.
func Unescape[T string | []byte](text T) (byte, bool) {
	if len(text) < EscapeLength || text[0] != '%' {
		return 0, false
	}
	high, low := hexDigits[text[1]], hexDigits[text[2]]
	return high<<4 | low, high|low < 16
}

// hexDigits are the values of hexadecimal digits; any other byte has more than they.
var hexDigits = func() (values [256]byte) {
	for c := range values {
		values[c] = 0xf0
	}
	for i := range byte(10) {
		values['0'+i] = i
	}
	for i := range byte(6) {
		values['a'+i], values['A'+i] = 10+i, 10+i
	}
	return values
}()
