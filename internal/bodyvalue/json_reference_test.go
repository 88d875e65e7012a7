package bodyvalue

import (
	"bytes"
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// referenceValue is a value of a document as encoding/json reads it.
type referenceValue struct {
	token   json.Token // a bracket of objects and arrays
	raw     string
	names   []referenceName // of an object's members
	members []*referenceValue
}

type referenceName struct{ text, raw string }

// referenceRead reads a document. It returns nil for one that is unreadable as a whole.
func referenceRead(body []byte) *referenceValue {
	if !json.Valid(body) || !utf8.Valid(body) {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	return referenceNext(body, decoder, 0)
}

func referenceToken(body []byte, d *json.Decoder) (json.Token, string) {
	from := d.InputOffset()
	token, err := d.Token()
	if err != nil {
		panic(err) // the body is valid
	}
	return token, strings.TrimLeft(string(body[from:d.InputOffset()]), " \t\r\n,:")
}

// referenceNext reads the next value; nil: it has too many levels.
func referenceNext(body []byte, d *json.Decoder, levels int) *referenceValue {
	v := &referenceValue{}
	v.token, v.raw = referenceToken(body, d)
	if _, ok := v.token.(json.Delim); !ok {
		return v
	}
	if levels++; levels > 512 {
		return nil
	}
	for d.More() {
		if v.token == json.Delim('{') {
			token, raw := referenceToken(body, d)
			name, _ := token.(string)
			v.names = append(v.names, referenceName{name, raw})
		}
		member := referenceNext(body, d, levels)
		if member == nil {
			return nil
		}
		v.members = append(v.members, member)
	}
	if _, err := d.Token(); err != nil {
		panic(err)
	}
	return v
}

var (
	escapedBackslash = regexp.MustCompile(`\\\\`)
	surrogatePair    = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)
	surrogate        = regexp.MustCompile(`\\u[dD][89a-fA-F]`)
)

// referenceBroken reports whether the raw text of a string has half a surrogate pair or U+0000.
func referenceBroken(raw string) bool {
	raw = escapedBackslash.ReplaceAllString(raw, "x")
	raw = surrogatePair.ReplaceAllString(raw, "x")
	return surrogate.MatchString(raw) || strings.Contains(raw, `\u0000`)
}

// referenceUnreadable is the result of an unreadable value.
const referenceUnreadable = "unreadable"

// referenceResult returns the value at a path as the design has it: the kind, a colon, and the text.
func referenceResult(v *referenceValue, names []string) string {
	if v == nil {
		return referenceUnreadable
	}
	if len(names) > 1 && (v.has(strings.Join(names, ".")) || v.has(names[1]) && !v.has(names[0])) {
		return referenceUnreadable
	}
	for _, name := range names {
		next, readable := v.member(name)
		if !readable {
			return referenceUnreadable
		}
		if next == nil {
			return "absent"
		}
		v = next
	}
	switch token := v.token.(type) {
	case json.Delim:
		if token == '[' {
			return referenceUnreadable
		}
	case string:
		if referenceBroken(v.raw) {
			return referenceUnreadable
		}
		return referenceString(token)
	case bool:
		return "word:" + strconv.FormatBool(token)
	case json.Number:
		return referenceText(string(token))
	}
	return "absent"
}

// referenceString returns a string as the design has it.
func referenceString(text string) string {
	if New(text).Kind() == KindUnreadable {
		return referenceUnreadable
	}
	return "string:" + text
}

// has reports whether there is a member of a name, in any spelling.
func (v *referenceValue) has(name string) bool {
	return slices.ContainsFunc(v.names, func(n referenceName) bool { return !referenceBroken(n.raw) && referenceSame(n.text, name) })
}

// referenceLongest is how long a name may be to be one of a path for sure, of all paths of the plan.
const referenceLongest = 3*5 + 64

// referenceSame reports whether a name is one of a path in some spelling. Names of [requestPaths], joined by dots, have at most 5 bytes.
func referenceSame(name, ofPath string) bool {
	join := strings.NewReplacer("_", "", "-", "").Replace
	if len(name) > referenceLongest {
		return len(join(name[:referenceLongest])) <= 3*len(ofPath)
	}
	return strings.EqualFold(join(strings.TrimSpace(name)), join(ofPath))
}

// member returns the member of a name; nil: there is none.
func (v *referenceValue) member(name string) (member *referenceValue, readable bool) {
	if v.token == json.Delim('[') {
		return nil, false
	}
	for i := range v.names {
		switch {
		case referenceBroken(v.names[i].raw), isLongBlank(v.names[i].text):
			return nil, false
		case !referenceSame(v.names[i].text, name):
			continue
		case member != nil || v.names[i].text != name:
			return nil, false
		}
		member = v.members[i]
	}
	return member, true
}

// referenceText judges a number by exact arithmetic.
func referenceText(raw string) string {
	if len(raw) > maxNumber {
		return referenceUnreadable
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(raw), "e")
	power, err := strconv.Atoi("0" + exponent)
	if strings.ContainsAny(exponent, "+-") {
		power, err = strconv.Atoi(exponent)
	}
	isZero := strings.Trim(mantissa, "-0.") == ""
	switch {
	case isZero && err == nil && power >= -21 && power <= 21:
		return "number:0"
	case isZero, err != nil || power > 1000 || power < -1000: // at most 64 digits cannot bring it back
		return referenceUnreadable
	}
	n, ok := new(big.Rat).SetString(raw)
	if !ok {
		panic(raw)
	}
	size := new(big.Rat).Abs(n)
	if strings.ContainsAny(raw, ".eE") {
		low, high := big.NewRat(1, 1e6), new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(21), nil))
		if strings.Contains(mantissa, ".") {
			mantissa = strings.TrimRight(mantissa, "0")
		}
		digits := strings.TrimLeft(strings.Replace(mantissa, ".", "", 1), "-0")
		written := strings.TrimLeft(strings.Trim(strings.Replace(raw[:len(raw)-len(exponentOf(raw))], ".", "", 1), "-"), "0")
		if len(digits) > 15 || len(written) > 17 || size.Cmp(low) < 0 || size.Cmp(high) > 0 {
			return referenceUnreadable
		}
	} else if size.Cmp(big.NewRat(1<<53, 1)) > 0 {
		return referenceUnreadable
	}
	text := n.FloatString(40)
	return "number:" + strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// isLongBlank reports whether a name within white space is too long to be compared with those of [requestPaths].
func isLongBlank(name string) bool {
	return len(name) > referenceLongest && strings.TrimSpace(name) != name
}

// exponentOf returns the end of a number from its e on.
func exponentOf(raw string) string {
	if i := strings.IndexAny(raw, "eE"); i >= 0 {
		return raw[i:]
	}
	return ""
}

// referenceInput returns the estimate of a document's tokens.
func referenceInput(v *referenceValue) int64 {
	size, numbers := v.size()
	return (size+3)/4 + numbers
}

var referenceEncoded = regexp.MustCompile(`^[A-Za-z0-9+/=\-_:;,.]{512}`)

func (v *referenceValue) size() (size, numbers int64) {
	if text, ok := v.token.(string); ok && (len(text) <= 512 || !referenceEncoded.MatchString(text)) {
		return int64(len(text)), 0
	}
	own := int64(0)
	for _, member := range v.members {
		if _, ok := member.token.(json.Number); ok {
			own++
		}
		n, m := member.size()
		size, numbers = size+n, numbers+m
	}
	if v.token == json.Delim('[') && own == int64(len(v.members)) {
		numbers += own
	}
	return size, numbers
}
