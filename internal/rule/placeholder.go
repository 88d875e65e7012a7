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

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestvalue"
)

// Placeholder is one of Caddy's placeholders, in a key or in place of a number. [ParsePlaceholder] makes one; the zero
// value is none.
type Placeholder struct {
	// Name has no braces.
	Name string

	field   field
	empties *atomic.Int32 // how many requests had no value, as long as no request had one; then below 0. Nil: not counted
}

// ParsePlaceholder reads the placeholder that an option's number comes from.
func ParsePlaceholder(option, text string) (Placeholder, error) {
	if text == "" {
		return Placeholder{}, nil
	}
	name, opened := strings.CutPrefix(text, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !opened || !closed || name == "" || strings.ContainsAny(name, "{}") {
		if short := PlaceholderFor(text); short != "" {
			return Placeholder{}, fmt.Errorf("%s %s: the placeholder has no braces; write {%s}%s", option, text, short, inJSON(short))
		}
		return Placeholder{}, fmt.Errorf("%s %s: use one placeholder such as {http.vars.plan_limit}", option, text)
	}
	return newPlaceholder(option, name)
}

// ParseDay reads the placeholder of the day on which a client's months begin; empty: no placeholder. One that clients write is
// refused: each day has a quota of its own.
func ParseDay(text string) (Placeholder, error) {
	p, err := ParsePlaceholder("window", text)
	if err == nil && p.isOfClients() {
		err = fmt.Errorf("window month@%s: clients write this value, and could use the quotas of 31 days; use {http.auth.user.<name>} of "+
			"their log-in, or let a map set a placeholder by the key, such as map {http.auth.user.id} {billing_day} { ... }", ShortNames(text))
	}
	return p, err
}

// isOfClients reports whether clients write the value as they like: a part of the request or what a matcher found in one, but
// not a certificate.
func (p *Placeholder) isOfClients() bool {
	ofRequest := strings.HasPrefix(p.Name, "http.request.") && !strings.HasPrefix(p.Name, "http.request.tls.client.")
	return ofRequest || p.field.kind != noField || strings.HasPrefix(p.Name, "http.regexp.") || p.Name == "http.vars.client_ip"
}

// TokensOfModel is the source of a cost that is the tokens of a language model's answer, as the known APIs report them, and
// of a weight that is an estimate of these.
const TokensOfModel = "llm"

// CallsOfBatch is the source of a weight that is how many calls the body holds.
const CallsOfBatch = "calls"

// weightWords are the sources of weights that are no placeholders.
var weightWords = map[string]fieldKind{TokensOfModel: tokensField, CallsOfBatch: callsField}

// The names of options in warnings and errors.
const (
	wordCost = "cost"
	wordKey  = "key"
)

// ParseWeight reads what the weight comes from: a placeholder; the word llm for an estimate of the tokens of a call to a language
// model; or the word calls for the number of calls in a body. Empty: nothing.
func ParseWeight(text string) (Placeholder, error) {
	if IsWeightWord(text) {
		return Placeholder{Name: text, field: field{kind: weightWords[text]}}, nil
	}
	if word := strings.ToLower(strings.Trim(text, "{}")); IsWeightWord(word) {
		return Placeholder{}, fmt.Errorf("weight %s: write %s, without braces and in lower case", text, word)
	}
	if text != "" && text[0] != '{' && PlaceholderFor(text) == "" {
		return Placeholder{}, fmt.Errorf("weight %s: use %s, %s, or one placeholder such as {http.vars.plan_limit}",
			text, TokensOfModel, CallsOfBatch)
	}
	return ParsePlaceholder("weight", text)
}

// IsWeightWord reports whether a text is a source of weights that is no placeholder, which needs no number behind it.
func IsWeightWord(text string) bool { return weightWords[text] != noField }

// newPlaceholder returns the placeholder of a name. The handlers map and vars may set any name. Only shorthands of the
// Caddyfile, and misspelled ones, are refused.
func newPlaceholder(option, name string) (Placeholder, error) {
	p := Placeholder{name, fieldOf(name), new(atomic.Int32)}
	if IsOfCrawler(name) {
		p.empties = nil // most requests have no value
	}
	if bodyvalue.IsPlaceholder(name) {
		source, err := bodyvalue.ParseSource(name)
		switch short := ShortNames("{" + name + "}"); {
		case err != nil:
			return p, fmt.Errorf("%s: %s: %w", option, short, err)
		case option == wordCost:
			return p, fmt.Errorf("%s: %s is known before the response; use it in weight", option, short)
		}
		p.field = field{kind: bodyField, source: source}
	}
	if strings.HasPrefix(name, CredentialName) && option != wordKey {
		return p, fmt.Errorf("%s: {%s} stands in keys alone", option, strings.TrimPrefix(name, bodyvalue.PlaceholderPrefix))
	}
	if full := fullName(name); full != "" {
		return p, fmt.Errorf("%s: {%s} is of the Caddyfile; in JSON write {%s}", option, name, full)
	}
	return p, checkSpelling(option, name)
}

// isOfBody reports whether the value is one of the request's body.
func (p *Placeholder) isOfBody() bool {
	return p.field.kind == bodyField || p.isWord()
}

// isWord reports whether the value comes from the body by a word, and is that of no placeholder.
func (p *Placeholder) isWord() bool { return p.field.kind == tokensField || p.field.kind == callsField }

// firstRequests is after how many empty values a placeholder's name is reported as probably wrong.
const firstRequests = 100

// recordValue counts an empty value; a value ends the count. A request without a body that was read counts nothing for a
// value of the body.
func (p *Placeholder) recordValue(q *request, value string) {
	if p.empties == nil || p.empties.Load() < 0 || p.field.kind == bodyField && (q.body == nil || !q.body.IsRead()) {
		return
	}
	if value == "" {
		p.empties.Add(1)
	} else {
		p.empties.Store(math.MinInt32)
	}
}

// isNeverSet reports, once, that no request of the first ones had a value.
func (p *Placeholder) isNeverSet() bool {
	if p.empties == nil {
		return false
	}
	n := p.empties.Load()
	return n >= firstRequests && p.empties.CompareAndSwap(n, math.MinInt32)
}

// field is a part of the request that a client can spell in several ways, or send several times. The zero value is none of
// them.
type field struct {
	kind   fieldKind
	name   string            // of a header in its canonical form
	parsed requestvalue.Name // of a cookie or a query parameter

	source bodyvalue.ValueSource // of the body
	number int                   // of the source in the plan of the set
}

type fieldKind uint8

const (
	noField fieldKind = iota
	headerField
	authorizationField // a header that has credentials
	cookieField
	queryField
	pathField
	uriField
	hostField
	hostPortField
	credentialField     // the one credential of the request, wherever it stands
	credentialUserField // the user of Basic
	bodyField
	tokensField // the estimate of a language model's tokens, which is no placeholder
	callsField  // the number of calls, which is no placeholder
)

// fieldNames are the placeholders of fields without a name of their own.
var fieldNames = map[string]fieldKind{
	"http.request.uri.path":  pathField,
	"http.request.uri":       uriField,
	"http.request.host":      hostField,
	"http.request.hostport":  hostPortField,
	CredentialName:           credentialField,
	CredentialName + ".user": credentialUserField,
}

// CredentialName is the placeholder of a request's credential, which stands in keys alone: no log or header has it.
const CredentialName = bodyvalue.PlaceholderPrefix + credentialShort

const credentialShort = "credential"

// HeaderPrefix begins the placeholders of headers.
const HeaderPrefix = "http.request.header."

const (
	cookiePrefix = "http.request.cookie."
	queryPrefix  = "http.request.uri.query."
)

// ErrEmptyKey is wrapped by the error of a request that is refused because it yields no key.
var ErrEmptyKey = errors.New("a placeholder of the rate limit key is empty")

// errRepeated is the error of a field that is given several times. A backend reads one of the values, and this module
// does not know which one.
var errRepeated = unreadError{bodyvalue.ReasonSeveral}

// errSimilarName is the error of a cookie or a parameter that is not there, but one whose name some take for it. A client of
// good faith may send one, so that skip counts by the address.
var errSimilarName = unreadError{bodyvalue.ReasonSimilarName}

// emptyKeyError returns the error of a request whose key is empty because a value cannot be used.
func emptyKeyError(unusable error) error { return fmt.Errorf("%w: %w", ErrEmptyKey, unusable) }

// fieldOf returns the field that a placeholder reads.
func fieldOf(placeholder string) field {
	if name, ok := strings.CutPrefix(placeholder, HeaderPrefix); ok {
		f := field{kind: headerField, name: textproto.CanonicalMIMEHeaderKey(name)}
		if f.name == "Authorization" || f.name == "Proxy-Authorization" {
			f.kind = authorizationField
		}
		return f
	}
	if name, ok := strings.CutPrefix(placeholder, cookiePrefix); ok {
		return field{kind: cookieField, name: name, parsed: requestvalue.ParseName(name)}
	}
	if name, ok := strings.CutPrefix(placeholder, queryPrefix); ok {
		return field{kind: queryField, name: name, parsed: requestvalue.ParseName(name)}
	}
	return field{kind: fieldNames[placeholder]}
}

// isHeader reports whether the field is a header.
func (f *field) isHeader() bool { return f.kind == headerField || f.kind == authorizationField }

// repeated reports whether a request has the field several times.
func (f *field) repeated(r *http.Request) bool {
	switch f.kind {
	case headerField, authorizationField:
		return len(r.Header[f.name]) > 1
	case cookieField:
		return f.cookies(r) > 1
	case queryField:
		return f.parameters(r.URL.RawQuery) > 1
	}
	return false
}

// cookies counts the cookies of the field's name. Case is ignored and no value is dropped: Caddy ignores case and drops
// some values, but a backend may read them.
func (f *field) cookies(r *http.Request) (times int) {
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
func (f *field) parameters(query string) (times int) {
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

// planBody has a plan read the placeholder's value, and reports whether the value is one of the body.
func (p *Placeholder) planBody(plan *bodyvalue.Plan) bool {
	switch p.field.kind {
	case bodyField:
		p.field.number = plan.Add(p.field.source)
		return true
	case tokensField:
		plan.AddTokens()
		return true
	case callsField:
		plan.AddCalls()
		return true
	}
	return false
}
