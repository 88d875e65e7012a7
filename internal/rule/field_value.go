package rule

import (
	"net/url"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestvalue"
)

// read returns the value of a field in its canonical text. The secret hashes passwords.
func (f *field) read(q *request, secret []byte) bodyvalue.Value {
	switch f.kind {
	case headerField:
		return requestvalue.Header(q.Header[f.name])
	case authorizationField:
		return requestvalue.Authorization(q.Header[f.name], secret)
	case cookieField:
		return requestvalue.Cookie(q.Header["Cookie"], f.parsed)
	case queryField:
		return requestvalue.Query(q.URL.RawQuery, f.parsed)
	case pathField:
		return requestvalue.Path(q.URL.Path)
	case uriField:
		return requestvalue.URI(q.URL.Path, q.URL.RawQuery)
	case hostField:
		return requestvalue.Host(q.Host)
	case hostPortField:
		return requestvalue.HostPort(q.Host, q.TLS != nil)
	case credentialField:
		return requestvalue.Credential(q.Header, q.URL.RawQuery, secret)
	case credentialUserField:
		return requestvalue.CredentialUser(q.Header["Authorization"])
	}
	return bodyvalue.Value{}
}

// fold returns the canonical text of a value that an operator names: the value of a request with this text in the field. A
// text that no request has is folded as it stands.
func (f *field) fold(text string, secret []byte) bodyvalue.Value {
	one := []string{text}
	switch f.kind {
	case headerField:
		return requestvalue.Header(one)
	case authorizationField:
		return requestvalue.Authorization(one, secret)
	case credentialField:
		return foldCredential(text, secret)
	case pathField:
		return requestvalue.Path(text)
	case uriField:
		path, query, _ := strings.Cut(text, "?")
		return requestvalue.URI(path, query)
	case hostField:
		return requestvalue.Host(text)
	case hostPortField:
		return requestvalue.HostPort(text, false)
	case cookieField, queryField:
		return requestvalue.Decoded(text, f.kind == cookieField)
	case bodyField, credentialUserField:
		return requestvalue.Fold(text)
	}
	return textOrAbsent(text)
}

// foldCredential returns the value of a credential in the first place where it is readable: Authorization, X-Api-Key, the query.
func foldCredential(text string, secret []byte) bodyvalue.Value {
	one := []string{text}
	v := requestvalue.Authorization(one, secret)
	for _, other := range []bodyvalue.Value{requestvalue.Header(one), requestvalue.Fold(text)} {
		if v.Kind() != bodyvalue.KindText || other.Text() == text {
			v = other
		}
	}
	return v
}

// readRaw returns the canonical text of a field by the text that Caddy's placeholder has of it. It is unreadable if the field
// is for each request whose placeholder has this text, and if no request's has.
func (f *field) readRaw(text string, secret []byte) bodyvalue.Value {
	switch f.kind {
	case cookieField: // without the quotes, and none with a byte that Go drops the cookie for
		if strings.ContainsFunc(text, func(r rune) bool { return r == '"' || r > '~' }) {
			return bodyvalue.Unreadable(bodyvalue.ReasonCookieByte)
		}
		return requestvalue.CookieText(text)
	case queryField:
		return requestvalue.Query("x="+url.QueryEscape(text), anyParameter)
	case uriField:
		path, query, _ := strings.Cut(text, "?")
		path, err := url.PathUnescape(path)
		if err != nil {
			return bodyvalue.Unreadable(bodyvalue.ReasonPercent)
		}
		return requestvalue.URI(path, query)
	case bodyField:
		return bodyvalue.New(text).Exact()
	}
	return f.fold(text, secret)
}

var anyParameter = requestvalue.ParseName("x")

// hasRaw reports whether Caddy has a text of the field's value as it came.
func (f *field) hasRaw() bool { return f.kind != credentialField && f.kind != credentialUserField }

// isDecoded reports whether the field's value is percent-decoded, so that its canonical text is not read a second time.
func (f *field) isDecoded() bool { return f.kind == cookieField || f.kind == queryField }

// textOrAbsent returns a text as it stands; an empty one is absent.
func textOrAbsent(text string) bodyvalue.Value {
	if text == "" {
		return bodyvalue.Value{}
	}
	return bodyvalue.Read(text)
}
