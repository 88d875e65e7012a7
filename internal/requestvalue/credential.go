package requestvalue

import (
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// Authorization returns the credential of an Authorization or Proxy-Authorization header, without its scheme: what stands
// behind the first blanks, or the whole without any. "Bearer abc", "bearer  abc" and "Token abc" are abc, since frameworks
// differ in which schemes they know. Letters are in lower case.
//
// Of a JWT all but the end of its signature counts, see [signed]; of Basic the user and a hash of the password, see
// [basic]. A header that signs the request, such as of Digest or AWS4-HMAC-SHA256, stays as it stands: it is another one in
// each request.
func Authorization(fields []string, secret []byte) bodyvalue.Value {
	field, reason := single(fields)
	if field == "" {
		return bodyvalue.Unreadable(reason)
	}
	scheme, token := cutScheme(field)
	if strings.EqualFold(scheme, "basic") {
		return basic(token).key(secret)
	}
	if v := credential(token); v.Kind() != bodyvalue.KindUnreadable || !signsRequest(scheme, field) {
		return v
	}
	if v := Header(fields); v.Kind() == bodyvalue.KindUnreadable {
		return v
	}
	return bodyvalue.Read(field)
}

// CredentialUser returns the user of Basic in an Authorization header, folded as [bodyvalue.FoldKey] does. It is absent
// for any other scheme.
func CredentialUser(fields []string) bodyvalue.Value {
	field, reason := single(fields)
	if field == "" {
		return bodyvalue.Unreadable(reason)
	}
	scheme, token := cutScheme(field)
	if !strings.EqualFold(scheme, "basic") {
		return bodyvalue.Value{}
	}
	return basic(token).userName()
}

// cutScheme splits an Authorization header at its first blanks. Without any it has no scheme.
func cutScheme(field string) (scheme, token string) {
	if i := strings.IndexAny(field, " \t"); i >= 0 {
		return field[:i], trim(field[i:])
	}
	return "", field
}

// signing are the schemes that sign a request.
var signing = []string{"digest", "aws4-hmac-sha256", "oauth", "hawk", "signature"}

// signsRequest reports whether an Authorization header signs its request. A field with the words of other schemes does not:
// some frameworks look for these anywhere in it.
func signsRequest(scheme, field string) bool {
	signs := false
	for _, name := range signing {
		signs = signs || strings.EqualFold(scheme, name)
	}
	if !signs {
		return false
	}
	field = strings.ToLower(field)
	return !strings.Contains(field, "bearer") && !strings.Contains(field, "token ") && !strings.Contains(field, "basic")
}

// credential returns the value of a token. One with a byte that some frameworks cut at, join by or drop is unreadable.
func credential(token string) bodyvalue.Value {
	unpadded := strings.TrimRight(token, "=")
	if unpadded == "" {
		return bodyvalue.Unreadable(bodyvalue.ReasonCredential)
	}
	isLower := true
	for i := range len(unpadded) {
		c := unpadded[i]
		if class[c]&inCredential == 0 {
			return bodyvalue.Unreadable(bodyvalue.ReasonCredential)
		}
		isLower = isLower && c-'A' > 'Z'-'A'
	}
	if mayBeJWT(unpadded) {
		signed, ok := signed(unpadded)
		if !ok {
			return bodyvalue.Unreadable(bodyvalue.ReasonJWT)
		}
		token = signed
	}
	if isLower {
		return bodyvalue.Read(token)
	}
	return bodyvalue.Read(lower(token))
}

// The classes of bytes in credentials.
const (
	inCredential = 1 << iota // may stand in a credential
	inBase64URL              // of the URL alphabet of base64
	inBase64Head             // the second letter of a base64 text that begins with a brace
)

var class = func() (t [256]uint8) {
	for c := byte('!'); c <= '~'; c++ {
		if strings.IndexByte(`",;=`, c) < 0 {
			t[c] |= inCredential
		}
	}
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") {
		t[c] |= inBase64URL
	}
	for _, c := range []byte("wxyzWXYZ0123456789-_+/") {
		t[c] |= inBase64Head
	}
	return t
}()

// mayBeJWT reports whether a credential may be a token of three or five parts (RFC 7515, 7516): the first part is a JSON
// object, whose brace is "e" and one of 16 letters in base64. Case is ignored, so that a value in lower case is taken for
// what its credential was taken for.
func mayBeJWT(token string) bool {
	return len(token) > 2 && bodyvalue.FoldASCII(token[0]) == 'e' && class[token[1]]&inBase64Head != 0 && strings.Count(token, ".") > 1
}

// signatureLetters are how many letters of a signature count: 30 whole bytes.
const signatureLetters = 40

// signed returns what counts of a JWT: all but the end of its signature, which may be changed without another meaning. The
// last letter of base64 has unused bits, and the second half of an ECDSA signature has two forms.
func signed(token string) (text string, ok bool) {
	if dots := strings.Count(token, "."); dots != 2 && dots != 4 {
		return "", false
	}
	begin := strings.LastIndexByte(token, '.') + 1
	for i := begin; i < len(token); i++ {
		if class[token[i]]&inBase64URL == 0 {
			return "", false
		}
	}
	return token[:begin+min(signatureLetters, (len(token)-begin)&^3)], true
}
