package overrides

import (
	"net/netip"
	"regexp"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Target says whom an override concerns.
type Target struct {
	// Policy is the policy's name.
	Policy string

	// Client is the text that stands for the client's key in the names of Redis keys: the encoded key, or
	// its HMAC where these are hashed. Empty for all clients of the policy that have no override of their
	// own. No client's key is the empty text here.
	Client string

	// Range is the addresses of clients, instead of one client's key: an IPv4 range has its own form, and no bits are set
	// behind those of the range.
	Range netip.Prefix
}

// All reports whether the override concerns all clients without one of their own.
func (t Target) All() bool { return t.Client == "" && !t.Range.IsValid() }

// Key returns the client's key; where keys are hashed, the HMAC in its place.
func (t Target) Key() limiter.EncodedKey {
	if t.Client == emptyClient {
		return limiter.EncodedKey{}
	}
	return limiter.AsEncoded(t.Client)
}

// field returns the name of the override in the hash: the policy alone, or a colon and the client behind
// it, or a slash and a range. No policy's name has a colon or a slash, so that no client can choose a key that is read as
// all or as a range. Versions without ranges leave such a field out, and keep it.
func (t Target) field() string {
	switch {
	case t.Range.IsValid():
		return t.Policy + "/" + t.Range.String()
	case t.All():
		return t.Policy
	}
	return t.Policy + ":" + t.Client
}

// policyName matches the names that policies can have.
var policyName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func parseField(field string) (t Target, ok bool) {
	if at := strings.IndexAny(field, ":/"); at >= 0 && field[at] == '/' {
		blocked, err := netip.ParsePrefix(field[at+1:])
		t = Target{Policy: field[:at], Range: blocked}
		return t, err == nil && policyName.MatchString(t.Policy) && blocked == blocked.Masked() && !blocked.Addr().Is4In6() && t.field() == field
	}
	policy, client, one := strings.Cut(field, ":")
	t = Target{Policy: policy, Client: client}
	return t, policyName.MatchString(policy) && one == (client != "") && limiter.AsEncoded(client).String() == client
}

// emptyClient is the text of the empty key, as in the names of Redis keys.
const emptyClient = "%"
