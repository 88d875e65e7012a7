package overrides

import (
	"net/netip"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Target says which clients an override applies to.
type Target struct {
	// Policy is the policy's name. Empty: the override is a block of a range for all policies.
	Policy string

	// Client is the client's key as the names of Redis keys have it: the encoded key, or its HMAC if keys are hashed.
	// Empty: all clients of the policy that have no override of their own. The empty key of a client is "%" here.
	Client string

	// Range is a range of clients' addresses, instead of one client's key. An IPv4 range is not in IPv6 form, and the bits
	// behind the prefix are 0.
	Range netip.Prefix
}

// All reports whether the override applies to all clients without an override of their own.
func (t Target) All() bool { return t.Client == "" && !t.Range.IsValid() }

// Everywhere reports whether the override is a block for all policies.
func (t Target) Everywhere() bool { return t.Policy == "" }

// isRange reports whether the target counts among the ranges, of which there may be [maxRanges]. One address for all policies
// does not: such addresses are looked up as clients' keys are.
func (t Target) isRange() bool {
	return t.Range.IsValid() && (!t.Everywhere() || !t.Range.IsSingleIP())
}

// Key returns the client's key; if keys are hashed, the HMAC of the key.
func (t Target) Key() limiter.EncodedKey {
	if t.Client == emptyClient {
		return limiter.EncodedKey{}
	}
	return limiter.AsEncoded(t.Client)
}

// field returns the field of the override in the hash: the policy's name, and behind it a colon and the client, a slash
// and a range, or nothing for all clients. No policy's name is empty or has a colon or a slash, so that no client can choose
// a key that is read as all clients or as a range. Versions without ranges, or without blocks for all policies, ignore such a
// field, and keep it.
func (t Target) field() string {
	switch {
	case t.Range.IsValid():
		return t.Policy + "/" + t.Range.String()
	case t.All():
		return t.Policy
	}
	return t.Policy + ":" + t.Client
}

func parseField(field string) (t Target, ok bool) {
	if at := strings.IndexAny(field, ":/"); at >= 0 && field[at] == '/' {
		blocked, err := netip.ParsePrefix(field[at+1:])
		t = Target{Policy: field[:at], Range: blocked}
		named := t.Everywhere() || limiter.ValidName(t.Policy)
		return t, err == nil && named && blocked == blocked.Masked() && !blocked.Addr().Is4In6() && t.field() == field
	}
	policy, client, one := strings.Cut(field, ":")
	t = Target{Policy: policy, Client: client}
	return t, limiter.ValidName(policy) && one == (client != "") && limiter.AsEncoded(client).String() == client
}

// emptyClient is the text of the empty key, as in the names of Redis keys.
const emptyClient = "%"
