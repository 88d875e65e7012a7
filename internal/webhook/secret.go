package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
)

// Secret signs messages and hides clients' keys. [ParseSecret] makes one.
type Secret struct{ bytes []byte }

const (
	secretMark  = "whsec_"
	leastSecret = 24 // bytes, as Standard Webhooks has it
	mostSecret  = 64
)

var errSecret = errors.New("secret: it is not whsec_ and 24 to 64 bytes in base64; make one by: echo whsec_$(openssl rand -base64 32)")

// ParseSecret reads a secret in the form of Standard Webhooks: whsec_ and 24 to 64 bytes in base64, with or without the
// padding. Blanks around the text are left out, as a file may end with a line break. The error does not show the text.
func ParseSecret(text string) (Secret, error) {
	digits, marked := strings.CutPrefix(strings.TrimSpace(text), secretMark)
	decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(digits, "="))
	if !marked || err != nil || len(decoded) < leastSecret || len(decoded) > mostSecret {
		return Secret{}, errSecret
	}
	return Secret{decoded}, nil
}

// sign returns the value of the header webhook-signature.
func (s Secret) sign(id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, s.bytes)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// hashKey hides a client's key: the same key has the same hash, as long as the secret is the same. What is hashed begins
// with "key:", and what is signed with an id, so that no client's key makes a signature.
func (s Secret) hashKey(key string) string {
	mac := hmac.New(sha256.New, s.bytes)
	mac.Write([]byte("key:" + key))
	return hex.EncodeToString(mac.Sum(nil))
}
