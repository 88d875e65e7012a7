package bodyvalue

// encodedLength is how many bytes a longer string begins with that decide whether it is base64.
const encodedLength = 512

// inputSize adds up what a model reads of a request.
type inputSize struct {
	bytes   int64 // of strings that are values
	numbers int64 // of arrays that have nothing else

	row   int64 // numbers of the innermost array
	isRow bool  // it has nothing else so far
}

// string adds a string.
func (s *inputSize) string(length int, isEncoded bool) {
	if length <= encodedLength || !isEncoded {
		s.bytes += int64(length)
	}
}

// number adds a number.
func (s *inputSize) number() { s.row++ }

// other takes any other value.
func (s *inputSize) other() { s.isRow = false }

// open begins an object or an array.
func (s *inputSize) open(isArray bool) { s.row, s.isRow = 0, isArray }

// close ends an object or an array. The one around it has more than numbers.
func (s *inputSize) close() {
	if s.isRow {
		s.numbers += s.row
	}
	s.isRow = false
}

// bytesPerToken is how many bytes of text are estimated as a token.
const bytesPerToken = 4

// tokens estimates how many tokens that is, from 0 to [largestNumber].
func (s *inputSize) tokens() int64 {
	return min(largestNumber, (s.bytes+bytesPerToken-1)/bytesPerToken+s.numbers)
}

// isEncoded reports whether bytes are such as base64, its variant for URLs and data URLs have.
func isEncoded(data []byte) bool {
	for _, c := range data {
		if !encodedBytes[c] {
			return false
		}
	}
	return true
}

// encodedBytes are letters, digits and +/=-_:;,.
var encodedBytes = newEncodedBytes()

func newEncodedBytes() (set [256]bool) {
	for c := range set {
		set[c] = c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
	}
	for _, c := range "+/=-_:;,." {
		set[c] = true
	}
	return set
}
