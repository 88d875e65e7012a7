package bodyvalue

import (
	"bytes"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// FieldName is the name of a field, compiled for comparisons. [ParseFieldName] makes one.
//
// Frameworks bend names: PHP makes user_email of "user.email" and "user email", Rack reads [email] and email] as email,
// others cut at NUL or strip "?". So a name is taken as a list of its elements, that is of what is left between
// separators, in one case. Two names conflict if their lists are equal. They also do if one list begins the other and
// the longer name goes on with a bracket, a dot, a blank or NUL, which makes an object of the shorter one for some.
// They do not if the longer one goes on with "_": email and email_confirmation are two fields. What stands behind the last
// element makes an object of the field for some too, but for the brackets of a list: email[x] and "email[ ]", not email[].
type FieldName struct {
	text    string
	pattern string // the elements with a joint between them
	member  string // the pattern without the first element, behind a hard joint; noMatch: there is none
}

// The joints between the elements of a pattern are bytes that UTF-8 does not have.
const (
	softJoint byte = 0xfe // separators behind which a longer name is another field
	hardJoint byte = 0xff // one of the others is among them
)

// ParseFieldName compiles the name of a field, such as "email" or "user[email]", or the first name of a JSON path, with which
// parameters of the query can conflict.
func ParseFieldName(text string) (FieldName, error) {
	switch {
	case text == "":
		return FieldName{}, errors.New("the name of a field is empty")
	case !utf8.ValidString(text):
		return FieldName{}, errors.New("the name of a field is no UTF-8")
	}
	var pattern []byte
	joint := byte(0)
	for _, r := range text {
		switch separatorOf(r) {
		case separatorSoft:
			joint = max(joint, softJoint)
			continue
		case separatorHard:
			joint = hardJoint
			continue
		}
		if joint != 0 && len(pattern) > 0 {
			pattern = append(pattern, joint)
		}
		joint = 0
		pattern = utf8.AppendRune(pattern, FoldRune(r))
	}
	n := FieldName{text: text, pattern: string(pattern), member: noMatch}
	if i := bytes.IndexByte(pattern, hardJoint); i >= 0 {
		n.member = n.pattern[i+1:]
	}
	return n, nil
}

// String returns the name as it was parsed.
func (n FieldName) String() string { return n.text }

// IsBare reports whether the name has no elements: it is nothing but separators.
func (n FieldName) IsBare() bool { return n.pattern == "" }

// match says how two names compare.
type match uint8

const (
	matchNone   match = iota // they are two fields
	matchEqual               // their lists are equal
	matchPrefix              // one list begins the other, and they conflict
)

// mayBegin reports whether the name of a field that conflicts may begin with a letter or digit of ASCII.
func (n FieldName) mayBegin(c byte) bool {
	return isAlphanumeric(c) && n.pattern != "" && n.pattern[0] == FoldASCII(c)
}

// compare compares with the name of a field that was sent.
func (n FieldName) compare(field []byte) match {
	rest := n.pattern
	begun, pending, hard := false, false, false
	var tail []byte // behind the last element
	for len(field) > 0 {
		r, size := rune(field[0]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(field)
		}
		field = field[size:]
		if separator := separatorOf(r); separator != separatorNone {
			pending, hard = true, hard || separator == separatorHard
			continue
		}
		switch {
		case rest == "" && pending && hard:
			return matchPrefix
		case rest == "":
			return matchNone
		case pending && begun && rest[0] < softJoint:
			return matchNone
		case pending && begun:
			rest = rest[1:]
		}
		begun, pending, hard = true, false, false
		if rest = cutFolded(rest, r); rest == noMatch {
			return matchNone
		}
		tail = field
	}
	switch {
	case rest == "" && !isTail(tail):
		return matchPrefix
	case rest == "":
		return matchEqual
	case begun && rest[0] == hardJoint:
		return matchPrefix
	}
	return matchNone
}

// ASP.NET reads the member of a model, which is a parameter of a handler, from the field model.email or model[email]. If no
// field has the model's name, it reads email.

// memberOf returns the name of a field without that of a model before it; nil: it has none.
func memberOf(field []byte) []byte {
	for i, c := range field {
		if c == '.' || c == '[' {
			if i > 0 {
				return field[i:]
			}
			break
		}
	}
	return nil
}

// isMember reports whether what stands behind the name of a model, see [memberOf], is the name.
func (n FieldName) isMember(member []byte) bool {
	return member != nil && !n.IsBare() && n.compare(member) != matchNone
}

// ofModel returns the name without that of a model before it; it matches no field if there is none.
func (n FieldName) ofModel() FieldName { return FieldName{pattern: n.member} }

// hasPoint reports whether the name of a field, up to "=", may have elements that make objects: it has a point, a bracket, or
// an escape.
func hasPoint[T string | []byte](field T) bool {
	i := 0
	for i < len(field) && !endsPlain[field[i]] {
		i++
	}
	return i < len(field) && field[i] != '='
}

// endsPlain are the bytes that end a name of one element.
var endsPlain = [256]bool{'.': true, '[': true, '%': true, '=': true}

// isTail reports whether separators behind a name leave the field a text, or a list of one, for all.
func isTail(text []byte) bool {
	switch string(text) {
	case "", "]", "[]", "][]":
		return true
	}
	return !bytes.ContainsFunc(text, func(r rune) bool { return separatorOf(r) == separatorHard })
}

// noMatch is no rest of a pattern.
const noMatch = "\xff\xff"

// cutFolded cuts a character in any case from the front of a pattern, or returns [noMatch].
func cutFolded(pattern string, r rune) string {
	c := pattern[0]
	if r < utf8.RuneSelf {
		if FoldASCII(byte(r)) == c {
			return pattern[1:]
		}
		return noMatch
	}
	if first, size := utf8.DecodeRuneInString(pattern); c < softJoint && first == FoldRune(r) {
		return pattern[size:]
	}
	return noMatch
}

// separator says whether a character stands between elements.
type separator uint8

const (
	separatorNone separator = iota
	separatorSoft           // a longer name that goes on with such is another field
	separatorHard
)

// asciiSeparators are those of ASCII. The four control characters from 0x1c on are blanks for Python.
var asciiSeparators = [utf8.RuneSelf]separator{
	'_': separatorSoft, '?': separatorSoft, '!': separatorSoft, // Spring takes !email for the default of email
	'[': separatorHard, ']': separatorHard, '.': separatorHard, 0: separatorHard,
	' ': separatorHard, '\t': separatorHard, '\n': separatorHard, '\v': separatorHard, '\f': separatorHard, '\r': separatorHard,
	0x1c: separatorHard, 0x1d: separatorHard, 0x1e: separatorHard, 0x1f: separatorHard,
}

// separatorOf returns which separator a character is.
func separatorOf(r rune) separator {
	switch {
	case r < utf8.RuneSelf:
		return asciiSeparators[r]
	case r == byteOrderMark, unicode.IsSpace(r): // the mark is a blank for JavaScript
		return separatorHard
	}
	return separatorNone
}

// InQuery reports whether a query has a parameter that conflicts with the name: frameworks prefer either the query or
// the body. The query is that of a URL as it was sent. It is split at "&" and ";", what is no escape stands for itself, and
// "=" before a name is passed over, as some do.
func (n FieldName) InQuery(query string) bool { return n.inQuery(query, false) }

// InQueryOfForm is [FieldName.InQuery] for a form, beside which a parameter with the name of a model may count as well.
func (n FieldName) InQueryOfForm(query string) bool { return n.inQuery(query, true) }

func (n FieldName) inQuery(query string, models bool) bool {
	var space [64]byte
	scratch := space[:0]
	for query != "" {
		parameter, rest := query, ""
		for i := range len(query) { // strings.IndexAny is slow where parameters are short
			if c := query[i]; c == '&' || c == ';' {
				parameter, rest = query[:i], query[i+1:]
				break
			}
		}
		query = rest
		name, _, _ := strings.Cut(strings.TrimLeft(parameter, "="), "=")
		if name == "" || isAlphanumeric(name[0]) && !n.mayBegin(name[0]) && (!models || !hasPoint(name)) {
			continue
		}
		scratch = appendDecoded(scratch[:0], name)
		if n.compare(scratch) != matchNone || models && n.isMember(memberOf(scratch)) {
			return true
		}
	}
	return false
}
