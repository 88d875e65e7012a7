package display

import (
	"encoding/hex"
	"errors"
	"strings"
)

// EscapeKey returns the form in which a client's key is shown and given. A backslash is doubled, and each byte
// of a character that does not print becomes \xNN. A key of any bytes then fits into JSON and is safe on a
// terminal, and different keys look different. [ParseKey] reads the form.
func EscapeKey(key string) string {
	return replaced(strings.ReplaceAll(key, `\`, `\\`), func(_ rune, bytes string) string { return hexBytes(bytes) })
}

var errKey = errors.New(`key: a backslash is written \\, any other byte may be written \xNN`)

// ParseKey reads a key in the form of [EscapeKey]. Bytes that need no escape may have one, and bytes that need
// one may stand without.
func ParseKey(text string) (string, error) {
	var key strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '\\':
			key.WriteByte(text[i])
		case strings.HasPrefix(text[i:], `\\`):
			key.WriteByte('\\')
			i++
		case strings.HasPrefix(text[i:], `\x`) && i+4 <= len(text):
			b, err := hex.DecodeString(text[i+2 : i+4])
			if err != nil {
				return "", errKey
			}
			key.Write(b)
			i += 3
		default:
			return "", errKey
		}
	}
	return key.String(), nil
}
