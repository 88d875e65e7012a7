package limiter

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// EncodedKey names a client's quota within a policy. It is text without braces, which mark the part
// of a Redis key that a Cluster finds the slot by. [EncodeKey] makes one of any text. The zero value
// is the key of the empty text, which is a quota too. Stores keep the text: a key that is a small
// part of a large string keeps the whole string in memory.
type EncodedKey struct{ text string }

// The marks of this package. No encoded text begins with one, because hexadecimal digits follow each '%' of such a text.
const (
	// HashedMark begins a hash in place of a text: of a key that was too long, or of all with [KeyFormat].Secret.
	HashedMark = "%~"

	// ReservedMark begins the text between the braces of a key that holds no client's state.
	ReservedMark = "%!"
)

// MaxKeyLength is the longest text of a key in bytes. A longer one is replaced by its hash.
const MaxKeyLength = 128

var (
	percentEncoder = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")
	braceEncoder   = strings.NewReplacer("{", "%7B", "}", "%7D")
)

// EncodeKey returns the key of a text of any bytes. Two texts have different keys. '%' and braces are
// percent-encoded, and a result of more than 128 bytes is replaced by its SHA-256. A Caddy whose key
// is one placeholder encodes its value the same way.
func EncodeKey(text string) EncodedKey {
	return AsEncoded(percentEncoder.Replace(text))
}

// AsEncoded returns the key of a text that its caller has encoded already, or that String returned.
// Braces are percent-encoded all the same, and a result of more than 128 bytes is replaced by its SHA-256.
// A '%' that no two hexadecimal digits follow begins a mark of the caller, such as a separator, other than
// [HashedMark] and [ReservedMark].
func AsEncoded(text string) EncodedKey {
	// Two scans for single bytes are several times as fast as a replacer's one.
	if strings.IndexByte(text, '{') >= 0 || strings.IndexByte(text, '}') >= 0 {
		text = braceEncoder.Replace(text)
	}
	return WithoutBraces(text)
}

// WithoutBraces is [AsEncoded] for a text that certainly has no brace.
func WithoutBraces(text string) EncodedKey {
	if len(text) > MaxKeyLength {
		sum := sha256.Sum256([]byte(text))
		return EncodedKey{HashedMark + hex.EncodeToString(sum[:])}
	}
	return EncodedKey{text}
}

// String returns the encoded text.
func (k EncodedKey) String() string { return k.text }

// DefaultKeyPrefix is the prefix of configurations that set none.
const DefaultKeyPrefix = "rl"

// SharedAdvice is what to know of the default prefix.
const SharedAdvice = "all sites on this Redis with the same names count together; give each its own key_prefix"

// KeyFormat is the form of keys in Redis: <prefix>:{<client key>}:<policy>:<code>. The braces keep
// all policies of one client key in one slot of a Cluster.
type KeyFormat struct {
	// Prefix begins every key. It must not contain braces. Empty: keys begin with the brace.
	Prefix string

	// Secret, if not empty, hides client keys: they appear as their HMAC-SHA256 only.
	Secret string
}

// Head returns what begins every key, up to the client's part.
func (k KeyFormat) Head() string {
	if k.Prefix == "" {
		return "{"
	}
	return k.Prefix + ":{"
}

// Reserved returns the name of a key that holds no state: <prefix>:{%!<tag>}:<name>. No state's key is
// one, whatever clients send: its braces hold no mark of this package, and two parts follow them. Keys
// of one tag lie in one slot of a Cluster.
func (k KeyFormat) Reserved(tag, name string) string {
	return k.Head() + ReservedMark + tag + "}:" + name
}
