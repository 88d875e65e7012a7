package rule

import (
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
	case authorizationField, credentialField:
		return requestvalue.Authorization(one, secret)
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

// isDecoded reports whether the field's value is percent-decoded, so that its canonical text is not read a second time.
func (f *field) isDecoded() bool { return f.kind == cookieField || f.kind == queryField }

// textOrAbsent returns a text as it stands; an empty one is absent.
func textOrAbsent(text string) bodyvalue.Value {
	if text == "" {
		return bodyvalue.Value{}
	}
	return bodyvalue.Read(text)
}
