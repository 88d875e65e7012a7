package requestvalue

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// login is what a credential of Basic (RFC 7617) says. Both texts are folded.
type login struct {
	user, password string
	reason         bodyvalue.UnreadableReason // why frameworks may read different ones
}

// basic reads a credential of Basic. Unused bits of its last letter are ignored, as nearly all do; any other text that is
// not the usual form of base64 is unreadable. The password ends at its first colon, as some have it.
func basic(token string) login {
	text, ok := decodeBase64(token)
	if !ok || !utf8.ValidString(text) || hasControl(text) {
		return login{reason: bodyvalue.ReasonBasic}
	}
	user, password, ok := strings.Cut(text, ":")
	if !ok {
		return login{reason: bodyvalue.ReasonBasic}
	}
	password, _, _ = strings.Cut(password, ":")
	return login{user: bodyvalue.FoldKey(user), password: bodyvalue.FoldKey(password)}
}

// decodeBase64 decodes a text in the standard alphabet, with its padding or without any.
func decodeBase64(text string) (decoded string, ok bool) {
	letters := strings.TrimRight(text, "=")
	if padding := len(text) - len(letters); padding > 0 && (padding > 2 || len(text)%4 != 0) {
		return "", false
	}
	if strings.ContainsAny(letters, "\r\n") { // which the decoder skips
		return "", false
	}
	bytes, err := base64.RawStdEncoding.DecodeString(letters)
	return string(bytes), err == nil
}

// basicMark stands before the value of a login, so that no user's name makes a value that is read as a JWT.
const basicMark = "basic:"

// hashedBytes are how many bytes of a password's hash stand in a key.
const hashedBytes = 8

// key returns the value in keys, "basic:<user>:<hash>". Keys stand in Redis, in reports and on pages, so the password is
// told by the first 64 bits of its hash with the user: HMAC-SHA-256 with the secret, or SHA-256 without one. Bytes of the
// user that cannot stand in a credential are percent-encoded, so that the value is its own value.
func (l login) key(secret []byte) bodyvalue.Value {
	if l.reason != bodyvalue.ReasonNone {
		return bodyvalue.Unreadable(l.reason)
	}
	key := append(make([]byte, 0, len(basicMark)+len(l.user)+1+2*hashedBytes), basicMark...)
	for i := range len(l.user) {
		if c := l.user[i]; class[c]&inCredential == 0 || c == '%' || c == ':' {
			key = append(key, '%', hexDigits[c>>4], hexDigits[c&15])
		} else {
			key = append(key, c)
		}
	}
	key = append(key, ':')
	return bodyvalue.Read(string(hex.AppendEncode(key, l.hash(secret)[:hashedBytes])))
}

const hexDigits = "0123456789abcdef"

func (l login) hash(secret []byte) []byte {
	text := []byte(l.user + ":" + l.password)
	if len(secret) == 0 {
		sum := sha256.Sum256(text)
		return sum[:]
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(text)
	return mac.Sum(nil)
}

// userName returns the user; one without a name is absent.
func (l login) userName() bodyvalue.Value {
	if l.user == "" {
		return bodyvalue.Unreadable(l.reason)
	}
	return bodyvalue.Read(l.user)
}
