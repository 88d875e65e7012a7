package limiter

import "hash/maphash"

// overflowCells is how many places a shard has for shares that there is no room for; a table has
// 65,536.
const overflowCells = 65536 / tableShards

// overflow keeps shares in a fixed number of places once a [Memory] is full. Keys that meet in a
// place share it, and so can get too little, never too much: forgetting the share of a client that
// has used it up, to make room, would give it a fresh one. Places are found by a seeded hash, so
// that nobody can choose whom to meet. A nil overflow is empty.
type overflow struct {
	seed  maphash.Seed
	plain []numbers
	logs  []*unitLog
}

func newOverflow(logs bool) *overflow {
	o := &overflow{seed: maphash.MakeSeed()}
	if logs {
		o.logs = make([]*unitLog, overflowCells)
	} else {
		o.plain = make([]numbers, overflowCells)
	}
	return o
}

func (o *overflow) cell(key string) uint64 { return maphash.String(o.seed, key) % overflowCells }

// get returns the share of a key's place. Its log is the caller's.
func (o *overflow) get(key string) state {
	if o.plain != nil {
		return state{numbers: o.plain[o.cell(key)]}
	}
	if log := o.logs[o.cell(key)]; log != nil {
		return state{log: log.coarse()}
	}
	return state{}
}

// drop empties a key's place and tells whether there was anything.
func (o *overflow) drop(key string) bool {
	if o == nil || o.get(key) == (state{}) {
		return false
	}
	if o.plain != nil {
		o.plain[o.cell(key)] = numbers{}
	} else {
		o.logs[o.cell(key)] = nil
	}
	return true
}

// spillOver stores a share that there is no room for.
func (s *shard) spillOver(key string, value state) {
	if s.spill == nil {
		s.spill = newOverflow(s.logs != nil)
	}
	s.spill.put(key, value)
	s.owner.overflows()
}

// put stores the share of a key's place.
func (o *overflow) put(key string, value state) {
	switch {
	case o.plain != nil:
		o.plain[o.cell(key)] = value.numbers
	case value.log != nil:
		o.logs[o.cell(key)] = value.log.coarse()
	}
}
