package redis

import (
	"fmt"
	"regexp"
	"strconv"
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
	ok = readWhole(entry[:], text)
	return entry, ok
}

// ReadTurn reads a field of turns, as scripts/waiting.lua stores them, into a state: the claim, or when values of a slot last
// had their turn. It reports false for any other field, and for a value that is none.
func ReadTurn(s *kernel.WaitingState, field, text string) bool {
	if field == "next" {
		var n [4]int64
		ok := readWhole(n[:], text)
		if ok {
			s.Claim = kernel.NodeClaim{Turn: n[0], Node: n[1], Units: n[2], Ends: n[3]}
		}
		return ok
	}
	digits, isSlot := strings.CutPrefix(field, "t")
	slot, err := strconv.ParseUint(digits, 10, 8)
	var at [1]int64
	if !isSlot || err != nil || slot >= kernel.TurnSlots || !readWhole(at[:], text) {
		return false
	}
	if s.Turns == nil {
		s.Turns = map[int64]int64{}
	}
	s.Turns[int64(slot)] = at[0]
	return true
}

// readWhole reads a text of so many stored numbers.
func readWhole(numbers []int64, text string) (ok bool) {
	if len(text) != 8*len(numbers) {
		return false
	}
	for i := range numbers {
		n := Double(text, i)
		if !(n >= 0 && n <= kernel.Precision) {
			return false
		}
		numbers[i] = int64(n)
	}
	return true
}

// NodeName returns a node's ID as text.
func NodeName(id int64) string { return fmt.Sprintf("%014x", id) }

// CodePattern matches the last part of a key of this module.
var CodePattern = regexp.MustCompile(`^[a-z][0-9]+(d|h|m|s|ms|us)(-ms|@[0-9]+)?$`)
