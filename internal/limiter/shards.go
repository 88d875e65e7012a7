package limiter

import (
	"hash/maphash"
	"iter"
)

// ShardCount is how many shards there are of each kind.
const ShardCount = 64

// Shards are the parts that what is kept of keys is divided in, each with a lock of its own.
type Shards[S any] [ShardCount]S

// seed is random, so that no client can choose its shard.
var seed = maphash.MakeSeed()

// HashKey returns a hash of a key, whose remainder by [ShardCount] is its shard. It is another one in each process.
func HashKey(key string) uint64 { return maphash.String(seed, key) }

// Of returns the shard of a key.
func (s *Shards[S]) Of(key string) *S { return &s[maphash.String(seed, key)%ShardCount] }

// All returns each shard.
func (s *Shards[S]) All() iter.Seq[*S] {
	return func(yield func(*S) bool) {
		for i := range s {
			if !yield(&s[i]) {
				return
			}
		}
	}
}
