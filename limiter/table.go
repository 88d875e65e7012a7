package limiter

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
)

// tableShards is how many locks the shares of one policy are spread over.
const tableShards = 64

// table holds the shares of one policy in a [Memory].
type table struct {
	owner  *Memory
	seed   maphash.Seed
	shards [tableShards]shard
}

// shard is the part of a table behind one lock. Its methods want the lock held. Only one of its
// maps is in use, whichever the policy's algorithm needs, so that a share costs no more than it is.
type shard struct {
	mu    sync.Mutex
	order int // locks are taken in this order, which is the same for all
	plain map[string]numbers
	logs  map[string]*unitLog
}

func newTable(owner *Memory, number int, a *algorithm) *table {
	t := &table{owner: owner, seed: maphash.MakeSeed()}
	for i := range t.shards {
		s := &t.shards[i]
		s.order = number*tableShards + i
		if a.logs {
			s.logs = map[string]*unitLog{}
		} else {
			s.plain = map[string]numbers{}
		}
	}
	return t
}

func (t *table) shardOf(key string) *shard {
	return &t.shards[maphash.String(t.seed, key)%tableShards]
}

func (t *table) len() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.plain) + len(s.logs)
		s.mu.Unlock()
	}
	return n
}

func (s *shard) get(key string) share {
	if s.logs != nil {
		return share{log: s.logs[key]}
	}
	return share{numbers: s.plain[key]}
}

func (s *shard) has(key string) bool {
	if s.logs != nil {
		return s.logs[key] != nil
	}
	_, found := s.plain[key]
	return found
}

func (s *shard) put(key string, value share) {
	if s.logs != nil {
		s.logs[key] = value.log
		return
	}
	s.plain[key] = value.numbers
}

func (s *shard) drop(key string) {
	delete(s.logs, key)
	delete(s.plain, key)
}

// take charges a passing check and stores its share.
func (s *shard) take(c *Check, old share, v verdict, now int64) {
	key, t := c.Key, &c.Policy.terms
	value := c.Policy.algorithm.kernel.take(old, t, v)
	if old == (share{}) && !s.has(key) {
		s.sweep(c.Policy, now)
		key = strings.Clone(key) // the caller's may be part of something larger
	}
	s.put(key, value)
}

// sweepSample is how many shares each new one looks at. Maps are walked from a random place, so
// that the part of the shares that is dead settles below 1/sweepSample.
const sweepSample = 4

// sweep forgets those of a few random shares that are as good as new, as Redis's TTL does.
func (s *shard) sweep(p *Policy, now int64) {
	t := &p.terms
	tick, kernel := now/t.tick, p.algorithm.kernel
	ended := tick - p.table.Load().owner.grace/t.tick
	looked := 0
	for key, value := range s.plain {
		if kernel.expires(share{numbers: value}, tick, t) <= ended {
			delete(s.plain, key)
		}
		if looked++; looked == sweepSample {
			return
		}
	}
	for key, value := range s.logs {
		if kernel.expires(share{log: value}, tick, t) <= ended {
			delete(s.logs, key)
		}
		if looked++; looked == sweepSample {
			return
		}
	}
}

// lockAll locks every shard once, in their order, and returns what unlocks them. The given slice
// keeps its order.
func lockAll(shards []*shard) (unlock func()) {
	ordered := slices.Clone(shards)
	slices.SortFunc(ordered, func(a, b *shard) int { return a.order - b.order })
	ordered = slices.Compact(ordered)
	for _, s := range ordered {
		s.mu.Lock()
	}
	return func() {
		for _, s := range ordered {
			s.mu.Unlock()
		}
	}
}
