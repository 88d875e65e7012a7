package overrides

import (
	"regexp"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// Target says whom an override concerns.
type Target struct {
	// Policy is the policy's name.
	Policy string

	// Client is the text that stands for the client's key in the names of Redis keys: the encoded key, or
	// its HMAC where these are hashed. Empty for all clients of the policy that have no override of their
	// own. No client's key is the empty text here.
	Client string
}

// All reports whether the override concerns all clients without one of their own.
func (t Target) All() bool { return t.Client == "" }

// Key returns the client's key; where keys are hashed, the HMAC in its place.
func (t Target) Key() limiter.EncodedKey {
	if t.Client == emptyClient {
		return limiter.EncodedKey{}
	}
	return limiter.AsEncoded(t.Client)
}

// field returns the name of the override in the hash: the policy alone, or a colon and the client behind
// it. No policy's name has a colon, so that no client can choose a key that is read as all.
func (t Target) field() string {
	if t.All() {
		return t.Policy
	}
	return t.Policy + ":" + t.Client
}

// policyName matches the names that policies can have.
var policyName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func parseField(field string) (t Target, ok bool) {
	policy, client, one := strings.Cut(field, ":")
	return Target{policy, client}, policyName.MatchString(policy) && one == (client != "") && limiter.AsEncoded(client).String() == client
}

// emptyClient is the text of the empty key, as in the names of Redis keys.
const emptyClient = "%"

// clientOf returns the text that stands for a client's key.
func (l *Live) clientOf(key limiter.EncodedKey) string {
	if l.hashed {
		return string(l.store.AppendClient(nil, key))
	}
	if text := key.String(); text != "" {
		return text
	}
	return emptyClient
}
