package rule

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"sync/atomic"
)

// Placeholder is what a key is made of, or where a number comes from. [ParsePlaceholder] makes one; the zero
// value is none.
type Placeholder struct {
	// Name is without braces.
	Name string

	field   field
	empties *atomic.Int32 // requests in which it was empty, as long as it was in all; then below 0. Nil: not counted
}

// ParsePlaceholder reads the placeholder that an option's number comes from.
func ParsePlaceholder(option, text string) (Placeholder, error) {
	if text == "" {
		return Placeholder{}, nil
	}
	name, opened := strings.CutPrefix(text, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !opened || !closed || name == "" || strings.ContainsAny(name, "{}") {
		return Placeholder{}, fmt.Errorf("%s %s: use one placeholder such as {http.vars.plan_limit}", option, text)
	}
	return newPlaceholder(option, name)
}

// newPlaceholder returns the placeholder of a name. Any name may be one that map or vars sets, but those that
// Caddy replaces in a Caddyfile and those that are meant for one of them.
func newPlaceholder(option, name string) (Placeholder, error) {
	p := Placeholder{name, fieldOf(name), new(atomic.Int32)}
	if full := fullName(name); full != "" {
		return p, fmt.Errorf("%s: {%s} is of the Caddyfile; in JSON write {%s}", option, name, full)
	}
	return p, checkSpelling(option, name)
}

// firstRequests is in how many requests a placeholder is empty before its name is suspected.
const firstRequests = 100

// saw records the value that a request has.
func (p *Placeholder) saw(value string) {
	if p.empties == nil || p.empties.Load() < 0 {
		return
	}
	if value == "" {
		p.empties.Add(1)
	} else {
		p.empties.Store(math.MinInt32)
	}
}

// isSuspect reports, once, that the first requests had no value.
func (p *Placeholder) isSuspect() bool {
	if p.empties == nil {
		return false
	}
	n := p.empties.Load()
	return n >= firstRequests && p.empties.CompareAndSwap(n, math.MinInt32)
}

// field is what a client can write into a request several times: a header, a cookie or a parameter of the
// query. The zero value is none of them.
type field struct {
	kind fieldKind
	name string // of a header in its canonical form
}

type fieldKind uint8

const (
	headerField fieldKind = iota + 1
	cookieField
	queryField
)

const (
	headerPrefix = "http.request.header."
	cookiePrefix = "http.request.cookie."
	queryPrefix  = "http.request.uri.query."
)

// ErrEmptyKey is wrapped by the error of a request that is refused because it yields no key.
var ErrEmptyKey = errors.New("a placeholder of the rate limit key is empty")

// errRepeated is the error of a field that stands in a request several times. A backend reads one of its
// values, and which one is not known here.
var errRepeated = errors.New("a header, a cookie or a query parameter stands several times in the request")

// errRepeatedKey is the error of a request whose key is empty for that reason.
var errRepeatedKey = fmt.Errorf("%w: %w", ErrEmptyKey, errRepeated)

// fieldOf returns the field that a placeholder stands for.
func fieldOf(placeholder string) field {
	if name, ok := strings.CutPrefix(placeholder, headerPrefix); ok {
		return field{headerField, textproto.CanonicalMIMEHeaderKey(name)}
	}
	if name, ok := strings.CutPrefix(placeholder, cookiePrefix); ok {
		return field{cookieField, name}
	}
	if name, ok := strings.CutPrefix(placeholder, queryPrefix); ok {
		return field{queryField, name}
	}
	return field{}
}

// repeated reports whether the field stands in a request several times.
func (f field) repeated(r *http.Request) bool {
	switch f.kind {
	case headerField:
		return len(r.Header[f.name]) > 1
	case cookieField:
		return f.cookies(r) > 1
	case queryField:
		return f.parameters(r.URL.RawQuery) > 1
	}
	return false
}

// cookies counts the field's cookies. Caddy ignores case in their names and drops some values, backends may
// not.
func (f field) cookies(r *http.Request) (times int) {
	for _, line := range r.Header["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			if name, _, _ := strings.Cut(pair, "="); strings.EqualFold(strings.TrimSpace(name), f.name) {
				times++
			}
		}
	}
	return times
}

// parameters counts the field's parameters in a query. Some backends also separate them by semicolons.
func (f field) parameters(query string) (times int) {
	for len(query) > 0 {
		pair := query
		if end := strings.IndexAny(query, "&;"); end >= 0 {
			pair, query = query[:end], query[end+1:]
		} else {
			query = ""
		}
		name, _, _ := strings.Cut(pair, "=")
		if unescaped, err := url.QueryUnescape(name); err == nil && unescaped == f.name {
			times++
		}
	}
	return times
}
