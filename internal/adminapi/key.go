package adminapi

import (
	"encoding/hex"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// KeyText is the form in which a client's key is shown and given: a backslash is doubled, and what
// cannot be printed is written \xNN byte by byte, so that a key of any bytes fits into JSON and harms
// no terminal, and no two keys look alike.
func KeyText(key string) string {
	var text strings.Builder
	for i := 0; i < len(key); {
		r, size := utf8.DecodeRuneInString(key[i:])
		switch {
		case r == '\\':
			text.WriteString(`\\`)
		case (r == utf8.RuneError && size == 1) || !unicode.IsPrint(r):
			for _, b := range []byte(key[i : i+size]) {
				text.WriteString(`\x` + hex.EncodeToString([]byte{b}))
			}
		default:
			text.WriteString(key[i : i+size])
		}
		i += size
	}
	return text.String()
}

var errKeyText = errors.New(`key: a backslash is written \\, any other byte may be written \xNN`)

// ParseKeyText reads a key in the form of [KeyText]. What stands there without need of an escape may
// have one, and the other way round.
func ParseKeyText(text string) (string, error) {
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
				return "", errKeyText
			}
			key.Write(b)
			i += 3
		default:
			return "", errKeyText
		}
	}
	return key.String(), nil
}
