package memory

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// overflowCells is how many cells a shard has for states without room; the 64 of a table have 65,536.
const overflowCells = 1024

// overflow keeps states in a fixed number of cells once a [Store] is full. Keys with the same
// cell have one state in common, and so can get too little, never too much. Dropping the state of a
// client at its limit, to make room, would give it a fresh quota. Cells are found by a seeded hash,
// so that no client can choose its cell. The holes of a bucket are dropped, so that refunds get less.
// A nil overflow is empty.
type overflow struct {
	plain []kernel.Numbers
	logs  []*kernel.UnitLog
}

func newOverflow(logs bool) *overflow {
	o := &overflow{}
	if logs {
		o.logs = make([]*kernel.UnitLog, overflowCells)
	} else {
		o.plain = make([]kernel.Numbers, overflowCells)
	}
	return o
}

// cell returns the place of a key. It depends on another part of the hash than the shard.
func (o *overflow) cell(key string) uint64 {
	return limiter.HashKey(key) / limiter.ShardCount % overflowCells
}

// get returns the state of a key's cell. Its log is a copy.
func (o *overflow) get(key string) kernel.State {
	if o.plain != nil {
		return kernel.State{Numbers: o.plain[o.cell(key)]}
	}
	if log := o.logs[o.cell(key)]; log != nil {
		return kernel.State{Log: log.Coarse()}
	}
	return kernel.State{}
}

// drop empties a key's cell and reports whether it held anything.
func (o *overflow) drop(key string) bool {
	if o == nil || o.get(key) == (kernel.State{}) {
		return false
	}
	if o.plain != nil {
		o.plain[o.cell(key)] = kernel.Numbers{}
	} else {
		o.logs[o.cell(key)] = nil
	}
	return true
}

// put stores the state of a key's cell.
func (o *overflow) put(key string, value kernel.State) {
	switch {
	case o.plain != nil:
		o.plain[o.cell(key)] = value.Numbers
	case value.Log != nil:
		o.logs[o.cell(key)] = value.Log.Coarse()
	}
}
