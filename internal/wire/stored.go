package wire

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// DecodeBan reads a stored state of bans.
func DecodeBan(text string) (s kernel.BanState, ok bool) {
	const size, confirmedSize = 5 * 8, 7 * 8
	if len(text) != size && len(text) != confirmedSize {
		return s, false
	}
	var n [7]int64
	for i := range len(text) / 8 {
		value := Double(text, i)
		if !(value >= 0 && value <= kernel.Precision) {
			return s, false
		}
		n[i] = int64(value)
	}
	return kernel.BanState{Denials: n[0], Since: n[1], Offenses: n[2], Until: n[3], Forgotten: n[4], Confirmed: n[5], Counted: n[6]}, true
}

// SplitBanKey returns the policy and the client of the key of a ban.
func SplitBanKey(name, head string) (policy, key string, ok bool) {
	at := strings.LastIndex(name, "}:")
	if at < len(head) || !strings.HasPrefix(name, head) {
		return "", "", false
	}
	policy, code, found := strings.Cut(name[at+2:], ":")
	if !found || !strings.HasPrefix(code, kernel.BanCode) || !CodePattern.MatchString(code) || !limiter.ValidName(policy) {
		return "", "", false
	}
	key = name[len(head):at]
	if key == "%" {
		key = "" // as it is encoded
	}
	return policy, key, true
}

// StoredEntry reads a node's entry: epoch, units, and when they expire.
func StoredEntry(text string) (entry [3]int64, ok bool) {
	if len(text) != 8*len(entry) {
		return entry, false
	}
	for i := range entry {
		n := Double(text, i)
		if !(n >= 0 && n <= kernel.Precision) {
			return entry, false
		}
		entry[i] = int64(n)
	}
	return entry, true
}

// NodeName returns a node's ID as text.
func NodeName(id int64) string { return fmt.Sprintf("%014x", id) }

// CodePattern matches the last part of a key of this module.
var CodePattern = regexp.MustCompile(`^[a-z][0-9]+(d|h|m|s|ms|us)(-ms)?$`)
