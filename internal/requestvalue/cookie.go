package requestvalue

import (
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// Cookie returns the value of the cookie with a name, percent-decoded and folded. fields are those of the header Cookie.
//
// The value is unreadable if servers read different ones: a second cookie of the name with another value, one whose name
// some servers take for it, several fields, and a byte that some drop or cut at. A cookie whose name some take for the one
// that is asked for, which itself is not there, has the reason [bodyvalue.ReasonSimilarName].
func Cookie(fields []string, name Name) bodyvalue.Value {
	s := search{name: name}
	for _, field := range fields {
		commas := strings.IndexByte(field, ',') >= 0
		for field != "" {
			pair := field
			if i := strings.IndexByte(field, ';'); i >= 0 {
				pair, field = field[:i], field[i+1:]
			} else {
				field = ""
			}
			s.addCookie(pair, commas)
		}
	}
	if v, ok := s.conflict(len(fields) > 1); !ok {
		return v
	}
	return CookieText(s.text)
}

// CookieText returns the value of a cookie by its text in the header.
func CookieText(text string) bodyvalue.Value {
	text = trim(text)
	if strings.HasPrefix(text, "j:") { // cookie-parser reads JSON behind it
		return bodyvalue.Unreadable(bodyvalue.ReasonCookieByte)
	}
	if v, ok := readPlain(text); ok {
		return v
	}
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	v := cookieEncoding.read(text)
	if strings.HasPrefix(v.Text(), "j:") {
		return bodyvalue.Unreadable(bodyvalue.ReasonCookieByte)
	}
	return v
}

// search is what was found of a name among cookies or parameters.
type search struct {
	name      Name
	text      string // the value of the first one, as it is written
	found     bool
	differs   bool // another one of the name has another value
	conflicts bool // one has a name that some servers take for this one
}

// add adds a cookie or a parameter.
func (s *search) add(compared match, text string) {
	switch {
	case compared == matchConflict:
		s.conflicts = true
	case compared == matchExact && s.found:
		s.differs = s.differs || text != s.text
	case compared == matchExact:
		s.found, s.text = true, text
	}
}

// addCookie adds a pair of a name and a value. Some servers separate cookies by commas too.
func (s *search) addCookie(pair string, commas bool) {
	name, text, _ := strings.Cut(pair, "=")
	s.add(s.name.compareCookie(trim(name)), trim(text))
	for more := text; commas; {
		_, after, found := strings.Cut(more, ",")
		if !found {
			return
		}
		more = after
		if name, _, isPair := strings.Cut(more, "="); isPair && s.name.compareCookie(trim(name)) != matchNone {
			s.conflicts = true
		}
	}
}

// conflict returns the value that does not depend on the text that was found. ok: the text that was found is the one.
func (s *search) conflict(several bool) (v bodyvalue.Value, ok bool) {
	switch {
	case !s.found && s.conflicts:
		return bodyvalue.Unreadable(bodyvalue.ReasonSimilarName), false
	case !s.found:
		return bodyvalue.Value{}, false
	case s.conflicts:
		return bodyvalue.Unreadable(bodyvalue.ReasonConflict), false
	case s.differs || several:
		return bodyvalue.Unreadable(bodyvalue.ReasonSeveral), false
	}
	return bodyvalue.Value{}, true
}
