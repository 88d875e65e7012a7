package limiter

import (
	"hash/maphash"
	"slices"
	"sync/atomic"
)

// tableShards is how many locks the states of one policy are spread over.
const tableShards = 64

// table holds the states of one policy in a [Memory], and of all that differ in limit or burst
// alone.
type table struct {
	owner  *Memory
	seed   maphash.Seed
	shards [tableShards]shard

	// dropped reports that nothing may be stored here any more. It is read under the lock of any
	// shard and set under those of all.
	dropped bool

	// slowest is the policy with the lowest limit so far. No other keeps a state longer: a bucket's
	// debt drains at the limit.
	slowest atomic.Pointer[Policy]
}

func newTable(owner *Memory, number int, p *Policy) *table {
	t := &table{owner: owner, seed: maphash.MakeSeed()}
	t.slowest.Store(p)
	for i := range t.shards {
		s := &t.shards[i]
		s.owner, s.table, s.order = owner, t, number*tableShards+i
		if p.algorithm.logs {
			s.logs = map[string]*unitLog{}
		} else {
			s.plain = map[string]numbers{}
		}
	}
	return t
}

// admit makes a policy count in this table. The owner's lock is held.
func (t *table) admit(p *Policy) {
	if p.params.limit < t.slowest.Load().params.limit {
		t.slowest.Store(p)
	}
	p.table.Store(t)
}

func (t *table) shardOf(key string) *shard {
	return &t.shards[maphash.String(t.seed, key)%tableShards]
}

// lockAll locks every shard once, in their order, and returns the function that unlocks them. The
// given slice keeps its order.
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
