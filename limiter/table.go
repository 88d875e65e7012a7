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

// shard is the part of a table behind one lock.
type shard struct {
	mu     sync.Mutex
	order  int // the same for every process path: locks are taken in this order
	shares map[string]storedShare
}

// storedShare is a share and the instant, in microseconds, from which it is as good as new.
type storedShare struct {
	share
	expires int64
}

func newTable(owner *Memory, number int) *table {
	t := &table{owner: owner, seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].order = number*tableShards + i
		t.shards[i].shares = map[string]storedShare{}
	}
	return t
}

func (t *table) shardOf(key string) *shard {
	return &t.shards[maphash.String(t.seed, key)%tableShards]
}

func (t *table) len() int {
	n := 0
	for i := range t.shards {
		t.shards[i].mu.Lock()
		n += len(t.shards[i].shares)
		t.shards[i].mu.Unlock()
	}
	return n
}

// take charges a passing check and stores its share. The lock must be held.
func (s *shard) take(c *Check, stored storedShare, v verdict, now int64) {
	t := &c.Policy.terms
	stored.share = c.Policy.algorithm.kernel.take(stored.share, t, v)
	isNew := stored.expires == 0
	stored.expires = now + t.micros(v.reset, now%t.tick)
	if isNew {
		s.sweep(now)
		s.shares[strings.Clone(c.Key)] = stored
		return
	}
	s.shares[c.Key] = stored
}

// sweepSample is how many shares each new one looks at. Maps are walked from a random place, so
// that the part of the shares that is dead settles below 1/sweepSample.
const sweepSample = 4

// sweep forgets those of a few random shares that are as good as new. Go twin of Redis's TTL.
func (s *shard) sweep(now int64) {
	looked := 0
	for key, stored := range s.shares {
		if stored.expires <= now {
			delete(s.shares, key)
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
