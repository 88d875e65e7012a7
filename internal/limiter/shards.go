package limiter

import (
	"hash/maphash"
	"iter"
)

// Count is how many shards a set has.
const Count = 64

// Set is shards of keys, each with a lock of its own.
type Set[S any] [Count]S

// seed is random, so that no client can choose its shard.
var seed = maphash.MakeSeed()

// Hash returns a hash of a key, whose remainder by [Count] is its shard. It is another one in each process.
func Hash(key string) uint64 { return maphash.String(seed, key) }

// Of returns the shard of a key.
func (s *Set[S]) Of(key string) *S { return &s[Hash(key)%Count] }

// All returns each shard.
func (s *Set[S]) All() iter.Seq[*S] {
	return func(yield func(*S) bool) {
		for i := range s {
			if !yield(&s[i]) {
				return
			}
		}
	}
}
