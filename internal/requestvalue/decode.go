package requestvalue

import (
	"strings"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// plain are the bytes that every server reads as they stand in cookies and parameters.
var plain = func() (t [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/!*'()@$|=") {
		t[c] = true
	}
	return t
}()

// readPlain returns the value of a text that every server reads as it stands. ok is false for any other text.
func readPlain(text string) (v bodyvalue.Value, ok bool) {
	isLower := true
	for i := range len(text) {
		c := text[i]
		if !plain[c] {
			return bodyvalue.Value{}, false
		}
		isLower = isLower && c-'A' > 'Z'-'A'
	}
	switch {
	case text == "":
		return bodyvalue.Value{}, true
	case isLower:
		return bodyvalue.Read(text), true
	}
	return bodyvalue.Read(lower(text)), true
}

// encoding is how the values of one place are written.
type encoding struct {
	refused string // bytes that servers read in different ways where they are not percent-encoded
	cuts    string // bytes that some servers cut at, also where they are percent-encoded
	outer   string // bytes that some servers drop at the ends
	plus    bool   // a percent-encoded "+" is a blank too, since some servers take a plain one for itself
	reason  bodyvalue.UnreadableReason
}

var (
	cookieEncoding = encoding{refused: ` ,"\`, cuts: ";&", outer: ` "`, plus: true, reason: bodyvalue.ReasonCookieByte}
	queryEncoding  = encoding{refused: "#", outer: " ", reason: bodyvalue.ReasonFragment}
)

// read decodes a value: %xx, and "+" as a blank. It is folded as [bodyvalue.FoldKey] does.
func (e *encoding) read(text string) bodyvalue.Value {
	decoded := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '%':
			var ok bool
			if c, ok = bodyvalue.Unescape(text[i:]); !ok {
				return bodyvalue.Unreadable(bodyvalue.ReasonPercent)
			}
			i += bodyvalue.EscapeLength - 1
			if c == '+' && e.plus {
				c = ' '
			}
		case c == '+':
			c = ' '
		case strings.IndexByte(e.refused, c) >= 0:
			return bodyvalue.Unreadable(e.reason)
		}
		switch {
		case isControl(c):
			return bodyvalue.Unreadable(bodyvalue.ReasonControl)
		case strings.IndexByte(e.cuts, c) >= 0:
			return bodyvalue.Unreadable(e.reason)
		}
		decoded = append(decoded, c)
	}
	if !utf8.Valid(decoded) {
		return bodyvalue.Unreadable(bodyvalue.ReasonUTF8)
	}
	return Fold(strings.Trim(string(decoded), e.outer))
}

// Decoded returns the value of a text as it stands in a cookie or in the query. A text that servers read in different ways
// there is taken for one that is decoded.
func Decoded(text string, inCookie bool) bodyvalue.Value {
	e := &queryEncoding
	if inCookie {
		e = &cookieEncoding
	}
	if v := e.read(text); v.Kind() == bodyvalue.KindText {
		return v
	}
	return Fold(text)
}

// Fold returns the value of a text in one case, without accents and blanks at its ends, see [bodyvalue.FoldKey]; one of which nothing is left is absent.
func Fold(text string) bodyvalue.Value {
	v := bodyvalue.New(text).Foldable()
	if v.Kind() != bodyvalue.KindText {
		return v
	}
	if text = bodyvalue.FoldKey(text); text == "" {
		return bodyvalue.Value{}
	}
	return bodyvalue.Read(text)
}
