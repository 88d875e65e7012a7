package limiter

import (
	"hash/maphash"
	"slices"
	"sync/atomic"
)

// tableShards is how many locks the shares of one policy are spread over.
const tableShards = 64

// table holds the shares of one policy in a [Memory].
type table struct {
	owner  *Memory
	policy atomic.Pointer[Policy] // one of those that count here
	seed   maphash.Seed
	shards [tableShards]shard
}

func newTable(owner *Memory, number int, p *Policy) *table {
	t := &table{owner: owner, seed: maphash.MakeSeed()}
	t.policy.Store(p)
	for i := range t.shards {
		s := &t.shards[i]
		s.owner, s.order = owner, number*tableShards+i
		if p.algorithm.logs {
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
