// Package bodyvalue reads what bodies hold: the values of requests, and the numbers of responses, such as what they cost.
//
// A [Value] is what a name or a path has in a request: a text, nothing, or one that applications may read in different ways.
// It counts only if every parser that reads the body at all must read this one; where parsers that are in use read different
// ones, the value is unreadable, with a reason. A [Plan] reads the values that a handler needs in one pass: of JSON by a
// [JSONPlan] and its [JSONReader], which examine everything, since a client could write a body that this package reads one way
// and the application another; of forms by a [FormPlan]. Placeholders name the values:
// {http.redis_ratelimit.json.<path>} and {http.redis_ratelimit.form.<name>}. A [ContentType] says which kind of body follows.
//
// Of a response a [NumberPlan] and its [NumberReader] read numbers at paths: of one document, of the events of a stream, or of
// lines. They examine what paths lead through. In all else they count brackets and find the ends of strings, which is several
// times as fast as a parser that examines everything.
//
// Readers of JSON take the body in pieces of any size, and keep the values that are asked for alone.
package bodyvalue

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Value is what a name or a path has in a request. The zero value is an absent one.
type Value struct {
	reason UnreadableReason // why there is no text
	isText bool
	text   string
}

// Kind says what a [Value] is.
type Kind uint8

// The kinds of values.
const (
	KindAbsent     Kind = iota // no parser reads one
	KindUnreadable             // parsers may read different ones, see [Value.Reason]
	KindText
)

// New returns the value of a text that every parser reads. A text that some applications change before they use it is
// unreadable.
func New(text string) Value {
	if reason := checkText(text); reason != ReasonNone {
		return Unreadable(reason)
	}
	return Value{isText: true, text: text}
}

// Read returns the value of a text whose reader has found that all applications read it as one. The text is not checked
// again.
func Read(text string) Value { return Value{isText: true, text: text} }

// Unreadable returns a value that is not read for a reason. Without one, that is for [ReasonNone], it is absent.
func Unreadable(reason UnreadableReason) Value { return Value{reason: reason} }

// Kind returns what the value is.
func (v Value) Kind() Kind {
	switch {
	case v.reason != ReasonNone:
		return KindUnreadable
	case v.isText:
		return KindText
	default:
		return KindAbsent
	}
}

// Or returns the one value of two places: the value of the other place if this one is absent. An unreadable value of either
// is the value of both, and two texts that differ are unreadable.
func (v Value) Or(other Value) Value {
	switch {
	case v.Kind() == KindAbsent, v.Kind() == KindText && other.Kind() == KindUnreadable:
		return other
	case v.Kind() == KindText && other.Kind() == KindText && v.text != other.text:
		return Unreadable(reasonCredentials)
	}
	return v
}

// Text returns the text, which may be empty. That of an absent and of an unreadable value is empty.
func (v Value) Text() string { return v.text }

// Reason returns why an unreadable value is; of any other value it is [ReasonNone].
func (v Value) Reason() UnreadableReason { return v.reason }

// Cut returns the value with at most so many bytes of its text, up to a whole character, in memory of its own.
func (v Value) Cut(length int) Value {
	if len(v.text) <= length {
		return v
	}
	for length > 0 && !utf8.RuneStart(v.text[length]) {
		length--
	}
	v.text = strings.Clone(v.text[:length])
	return v
}

// Exact returns the value for where its blanks count: matchers, numbers and keys that are not folded. Some frameworks
// drop blanks and invisible characters at the ends, others keep them, so a text that has some is unreadable there.
func (v Value) Exact() Value {
	if v.isText && strings.TrimFunc(v.text, isBlank) != v.text {
		return Unreadable(reasonBlank)
	}
	return v
}

// isBlank reports whether some frameworks drop a character at the ends of a text.
func isBlank(r rune) bool {
	return unicode.IsSpace(r) || r >= utf8.RuneSelf && (unicode.Is(unicode.Cf, r) || strings.ContainsRune(invisible, r))
}

// maxFoldable is how many bytes a text has at most that is folded.
const maxFoldable = 64 << 10

// Foldable returns the value for a key that is folded by [FoldKey]. A text of more than 64 KiB is unreadable there: it takes
// up to 8 ns a byte to fold, and cannot stay as it is, since the name of an account may be left of it.
func (v Value) Foldable() Value {
	if len(v.text) > maxFoldable {
		return Unreadable(reasonLong)
	}
	return v
}

// byteOrderMark is dropped by some parsers at the begin of a text, or of a body.
const byteOrderMark = '\ufeff'

// checkText returns why a text is no value. Some parsers replace or drop the characters that are refused here, and
// databases do.
func checkText(text string) UnreadableReason {
	for i, r := range text {
		if r >= 0x20 && r < 0x7f || r == '\t' || r == '\r' || r == '\n' {
			continue
		}
		switch {
		case unicode.IsControl(r):
			return ReasonControl
		case r == byteOrderMark:
			return ReasonByteOrderMark
		case r&0xfffe == 0xfffe, r >= 0xfdd0 && r <= 0xfdef: // Unicode 16, section 23.7
			return reasonNoncharacter
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			return ReasonUTF8
		}
	}
	return ReasonNone
}
