package rule

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// KeyTemplate makes the client key of a request. Keys are injective: two requests have the same key only if all
// placeholders have the same values.
//
// Within each value '%', '{', '}' and every literal character of the template are percent-encoded,
// so that neither a separator nor a brace can move the border between two values. A mark is '%' and a character that is
// no hexadecimal digit, so that no value can contain a mark.
type KeyTemplate struct {
	parts    []keyPart
	reserved [256]bool // the bytes that are encoded in values
	prefixes Prefixes

	// Raw keeps values as Caddy has them. By default texts that applications take for one are one: see [requestvalue].
	// What is unreadable stays unreadable.
	Raw bool

	secret []byte // of hash_keys, for passwords in keys
}

// keyPart is an encoded literal, or a placeholder.
type keyPart struct {
	literal string
	Placeholder
	address bool // the placeholder is a client's address
	client  bool // the placeholder is {client_ip}
}

const (
	addressMark = "%ip:" // before the address of a client whose key was empty
	borderMark  = "%+"   // between placeholders without a literal between them
)

// ParseKey reads the option key. Braces that are no placeholder are escaped by a backslash, as everywhere in Caddy.
func ParseKey(text string, prefixes Prefixes) (KeyTemplate, error) {
	t := KeyTemplate{prefixes: prefixes}
	for _, b := range []byte("%{}") {
		t.reserved[b] = true
	}
	var literal, literals strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			t.parts = append(t.parts, keyPart{literal: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && (text[i+1] == '{' || text[i+1] == '}'):
			i++
			t.addLiteral(&literal, text[i])
			literals.WriteByte(text[i])
		case text[i] == '{':
			end := strings.IndexByte(text[i:], '}')
			if end < 0 {
				return t, fmt.Errorf("key %q: a brace is not closed; write \\{ for a brace that is no placeholder", text)
			}
			flush()
			if err := t.addPlaceholder(text[i+1 : i+end]); err != nil {
				return t, err
			}
			i += end
			literals.WriteByte(0)
		default:
			t.addLiteral(&literal, text[i])
			literals.WriteByte(text[i])
		}
	}
	flush()
	if len(t.parts) == 0 {
		return t, errors.New("key: empty; leave it out for {client_ip}")
	}
	return t, checkLiterals(text, literals.String(), t.IsFixed())
}

// ParseTurns reads what turns go round by.
func ParseTurns(text string, prefixes Prefixes) (*KeyTemplate, error) {
	by, err := ParseKey(text, prefixes)
	switch {
	case len(by.parts) > 0 && by.IsFixed():
		return nil, fmt.Errorf("wait: by %s is the same for all requests; write a placeholder such as {http.auth.user.id}", text)
	case err != nil:
		return nil, fmt.Errorf("wait: by%s", strings.TrimPrefix(err.Error(), "key"))
	}
	return &by, nil
}

// IsFixed reports whether all requests have the same key.
func (t *KeyTemplate) IsFixed() bool {
	return !slices.ContainsFunc(t.parts, func(p keyPart) bool { return p.Name != "" })
}

// addPlaceholder adds a placeholder, and a border mark if another placeholder is right before. Empty addresses are not
// counted, since OnMissingAddress reports them.
func (t *KeyTemplate) addPlaceholder(name string) error {
	p, err := newPlaceholder("key", name)
	switch {
	case err != nil:
		return err
	case name == "" || strings.Contains(name, "{"):
		return fmt.Errorf("key: {%s} is no placeholder; write \\{ for a brace that begins none", name)
	}
	address := name == clientIPName || name == remoteHostName
	if address {
		p.empties = nil
	}
	if last := len(t.parts) - 1; last >= 0 && t.parts[last].Name != "" {
		t.parts = append(t.parts, keyPart{literal: borderMark})
	}
	t.parts = append(t.parts, keyPart{Placeholder: p, address: address, client: name == clientIPName})
	return nil
}

// addLiteral writes a literal byte as no value is written, and has the byte encoded in values.
func (t *KeyTemplate) addLiteral(literal *strings.Builder, b byte) {
	t.reserved[b] = true
	switch b {
	case '%':
		literal.WriteString("%%")
	case '{':
		literal.WriteString("%(")
	case '}':
		literal.WriteString("%)")
	default:
		literal.WriteByte(b)
	}
}

// HashPasswords has passwords in keys hashed with a secret, which hash_keys has. Without that option their hash has no secret.
func (t *KeyTemplate) HashPasswords(secret string) { t.secret = []byte(secret) }

// key makes the key of a request. The key is empty if one of the placeholders is absent or unreadable.
func (t *KeyTemplate) key(q *request) limiter.EncodedKey {
	if len(t.parts) == 1 && t.parts[0].Name != "" {
		part := &t.parts[0]
		if part.client && q.ofClient != (limiter.EncodedKey{}) && q.prefixes == t.prefixes {
			return q.ofClient
		}
		value := t.text(part, q)
		if part.empties != nil {
			part.recordValue(q, value)
		}
		if !t.needsEncoding(value) { // braces do
			if !part.address && part.field.kind != headerField {
				value = strings.Clone(value) // else a store would keep the whole cookie line or URL that has the value
			}
			key := limiter.WithoutBraces(value)
			if part.client {
				q.ofClient, q.prefixes = key, t.prefixes
			}
			return key
		}
	}
	var space [256]byte
	key := space[:0]
	for i := range t.parts {
		part := &t.parts[i]
		if part.Name == "" {
			key = append(key, part.literal...)
			continue
		}
		value := t.text(part, q)
		if part.recordValue(q, value); value == "" {
			return limiter.EncodedKey{}
		}
		key = t.appendEncoded(key, value)
	}
	return limiter.AsEncoded(string(key))
}

// addressKey makes the key that replaces an empty one: the client's address behind a mark, so that no value of a
// placeholder can be the same key.
func (t *KeyTemplate) addressKey(r *http.Request) limiter.EncodedKey {
	ip, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	return limiter.AsEncoded(string(t.appendEncoded([]byte(addressMark), t.prefixes.Shorten(ip))))
}

// unusable returns the placeholder of a value of the key that cannot be used, though it is there, and why. The key is empty
// then. Nil: the value is missing. Of several values one that is there under its own name comes first.
func (t *KeyTemplate) unusable(q *request) (found *keyPart, err error) {
	for i := range t.parts {
		part := &t.parts[i]
		if part.Name == "" {
			continue
		}
		switch reason := t.value(part, q).Reason(); {
		case reason == bodyvalue.ReasonNone:
		case reason != bodyvalue.ReasonSimilarName:
			return part, unreadError{reason}
		case found == nil:
			found, err = part, unreadError{reason}
		}
	}
	return found, err
}

// wasReadable reports whether version 1.0 read a value that is unreadable for a reason.
func (p *keyPart) wasReadable(err error) bool {
	return p.field.kind != bodyField && !errors.Is(err, errRepeated)
}

// Cookies lists the cookies that keys are made of.
func (t *KeyTemplate) Cookies() (names []string) {
	for i := range t.parts {
		if f := &t.parts[i].field; f.kind == cookieField {
			names = append(names, f.name)
		}
	}
	return names
}

// text returns what a placeholder has in keys; empty if that is absent or unreadable.
func (t *KeyTemplate) text(part *keyPart, q *request) string {
	if part.client { // the usual key without the replacer, which takes many times as long
		if q.vars == nil {
			q.vars, _ = q.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
		}
		ip, _ := q.vars[caddyhttp.ClientIPVarKey].(string)
		return t.prefixes.Shorten(ip)
	}
	return t.value(part, q).Text()
}

// value returns what a placeholder has in keys: one text for all spellings that applications take for it, none, or the
// reason why it is unreadable. Braces in a value are not replaced again.
func (t *KeyTemplate) value(part *keyPart, q *request) bodyvalue.Value {
	switch f := &part.field; {
	case part.Name == clientIPName:
		return textOrAbsent(t.text(part, q))
	case f.kind == bodyField:
		return t.valueOfBody(f.number, q)
	case f.kind != noField:
		return t.valueOfRequest(part, q)
	}
	text, _ := q.repl.GetString(part.Name)
	if part.address {
		text = t.prefixes.Shorten(text)
	}
	return textOrAbsent(text)
}

// valueOfBody returns a value of the request's body.
func (t *KeyTemplate) valueOfBody(number int, q *request) bodyvalue.Value {
	v := q.valueOfBody(number)
	if t.Raw {
		return v.Exact()
	}
	if v = v.Foldable(); v.Kind() != bodyvalue.KindText {
		return v
	}
	return textOrAbsent(bodyvalue.FoldKey(v.Text()))
}

// valueOfRequest returns a value of the request's header, query, path or host. With Raw a value that is readable is the text
// that Caddy has of it; credentials that Caddy has no placeholder for stay as they are.
func (t *KeyTemplate) valueOfRequest(part *keyPart, q *request) bodyvalue.Value {
	v := part.field.read(q, t.secret)
	if !t.Raw || v.Kind() != bodyvalue.KindText || !part.field.hasRaw() {
		return v
	}
	if part.field.isHeader() {
		return textOrAbsent(q.Header[part.field.name][0])
	}
	text, _ := q.repl.GetString(part.Name)
	if text == "" { // Go drops cookies that applications read
		return bodyvalue.Unreadable(bodyvalue.ReasonCookieByte)
	}
	return bodyvalue.Read(text)
}

func (t *KeyTemplate) needsEncoding(value string) bool {
	for i := range len(value) {
		if t.reserved[value[i]] {
			return true
		}
	}
	return false
}

func (t *KeyTemplate) appendEncoded(key []byte, value string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(value) {
		if b := value[i]; t.reserved[b] {
			key = append(key, '%', digits[b>>4], digits[b&15])
		} else {
			key = append(key, b)
		}
	}
	return key
}

// ReadsBody reports whether a value of the request's body is in keys.
func (t *KeyTemplate) ReadsBody() bool {
	return slices.ContainsFunc(t.parts, func(p keyPart) bool { return p.field.kind == bodyField })
}

// IsAddress reports whether keys are a client's address and nothing else.
func (t *KeyTemplate) IsAddress() bool { return len(t.parts) == 1 && t.parts[0].address }

// isOfAddressAlone reports whether keys have the client's address, and no other value.
func (t *KeyTemplate) isOfAddressAlone() bool {
	for i := range t.parts {
		if t.parts[i].Name != "" && !t.parts[i].address {
			return false
		}
	}
	return t.HasAddress()
}

// IsAddressKey reports whether a key is one of [KeyTemplate.addressKey].
func IsAddressKey(key limiter.EncodedKey) bool { return strings.HasPrefix(key.String(), addressMark) }

// userPrefix begins the placeholders about the authenticated user.
const userPrefix = "http.auth.user."

// Headers lists the request headers that keys are made of, in their canonical form. The authenticated user is listed as
// user_id, as access logs have it.
func (t *KeyTemplate) Headers() (names []string) {
	for i := range t.parts {
		switch part := &t.parts[i]; {
		case part.field.isHeader():
			names = append(names, part.field.name)
		case strings.HasPrefix(part.Name, userPrefix):
			names = append(names, "user_id")
		}
	}
	return names
}

// FoldedHeaders lists the request headers of which keys have the letters in one case, in their canonical form.
func (t *KeyTemplate) FoldedHeaders() (names []string) {
	for i := range t.parts {
		if f := &t.parts[i].field; f.kind == headerField && !t.Raw {
			names = append(names, f.name)
		}
	}
	return names
}

// Placeholders lists the names of the placeholders in the key.
func (t *KeyTemplate) Placeholders() (names []string) {
	for i := range t.parts {
		if name := t.parts[i].Name; name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Contains reports whether a value in the key of a request contains a text. Only values of other origin are searched,
// such as variables: not those of the request itself, of the user, and addresses.
func (t *KeyTemplate) Contains(r *http.Request, repl *caddy.Replacer, text string) bool {
	q := &request{Request: r, repl: repl}
	for i := range t.parts {
		part := &t.parts[i]
		if part.Name == "" || part.address || strings.HasPrefix(part.Name, "http.request.") || strings.HasPrefix(part.Name, userPrefix) {
			continue
		}
		if strings.Contains(t.value(part, q).Text(), text) {
			return true
		}
	}
	return false
}
