package overrides

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// snapshot is the overrides that apply. A snapshot is never changed, so that requests read it without a lock.
type snapshot struct {
	entries    []*Entry
	policies   map[string]*ofPolicy
	everywhere *everywhere // nil: nothing is blocked for all policies
}

// ofPolicy is the overrides of one policy.
type ofPolicy struct {
	all      *Entry            // nil: none
	byClient map[string]*Entry // by Target.Client
	ranges   *Ranges           // nil: none
	blocks   bool              // one of them blocks
}

// newSnapshot sorts entries by policy; nil if there is none.
func newSnapshot(entries map[string]*Entry) *snapshot {
	if len(entries) == 0 {
		return nil
	}
	s, ranged := &snapshot{policies: map[string]*ofPolicy{}}, map[*ofPolicy][]*Entry{}
	var blocked []*Entry
	for _, e := range entries {
		if s.entries = append(s.entries, e); e.Everywhere() {
			blocked = append(blocked, e)
			continue
		}
		p := s.policies[e.Target.Policy]
		if p == nil {
			p = &ofPolicy{byClient: map[string]*Entry{}}
			s.policies[e.Target.Policy] = p
		}
		p.blocks = p.blocks || e.Action == Block
		switch {
		case e.Range.IsValid():
			ranged[p] = append(ranged[p], e)
		case e.All():
			p.all = e
		default:
			p.byClient[e.Client] = e
		}
	}
	for p, entries := range ranged {
		p.ranges = newRanges(entries)
	}
	s.everywhere = newEverywhere(blocked)
	return s
}

// current returns the overrides of a policy that apply now; nil if there is none.
func (l *Live) current(policy string) *ofPolicy {
	if l == nil {
		return nil
	}
	s := l.Applied.Load()
	if s == nil {
		return nil
	}
	return s.policies[policy]
}

// Find returns the override of a client's key in a policy, or else the override of all clients; nil if there is none. It
// also returns the blocked ranges of the policy, which the client's address has to be compared with; nil if there is
// none. A nil Live has no override.
func (l *Live) Find(policy string, key limiter.EncodedKey) (*Entry, *Ranges) {
	p := l.current(policy)
	if p == nil {
		return nil, nil
	}
	if len(p.byClient) > 0 {
		if e := p.byClient[l.clientOf(key)]; l.applies(e) {
			return e, p.ranges
		}
	}
	if l.applies(p.all) {
		return p.all, p.ranges
	}
	return nil, p.ranges
}

// Blocks reports whether the policy has a block.
func (l *Live) Blocks(policy string) bool {
	p := l.current(policy)
	return p != nil && p.blocks
}

// version is the content of the version key. The script that changes entries makes the number larger than all numbers
// before, so that a Redis that has lost changes, or all keys, has an older version than the nodes know. Zeros may stand
// before the count: by their number package storepool shows that nodes are asked something. They are no other version.
type version struct {
	number int64 // Redis's time of the change in microseconds; 0: there was none
	count  int   // of the entries
}

// mostVersion bounds versions: scripts count in doubles, in which larger numbers would not grow by 1 any more.
const mostVersion = 9_005_000_000_000_000

// parseVersion reads the version key. A foreign text is no version.
func parseVersion(text string) (v version) {
	number, count, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n >= mostVersion {
		return version{}
	}
	v.number = n
	v.count, _ = strconv.Atoi(count) // 0 where it is missing
	return v
}

// Blocking returns the longest block of the ranges that contain an address; nil if none does. The address is the whole
// one, not cut to its prefix. IPv4 in IPv6 form counts as IPv4.
func (l *Live) Blocking(r *Ranges, address netip.Addr) *Entry {
	if e := r.find(address.Unmap().WithZone("")); l.applies(e) {
		return e
	}
	return nil
}

// BlockingNetwork returns the longest block of a range that contains all addresses of a network, and the block of a range
// that contains some of them; nil if there is none.
func (l *Live) BlockingNetwork(r *Ranges, network netip.Prefix) (all, some *Entry) {
	return l.blocking(r.entries, network)
}

// blocking is [Live.BlockingNetwork] for blocks in any order.
func (l *Live) blocking(blocks []*Entry, network netip.Prefix) (all, some *Entry) {
	for _, e := range blocks {
		switch {
		case !l.applies(e) || !e.Range.Overlaps(network):
		case e.Range.Bits() <= network.Bits():
			all = Longer(all, e)
		default:
			some = e
		}
	}
	return all, some
}
