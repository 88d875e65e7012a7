package requestbody

import (
	"sync"
	"sync/atomic"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// shareDivisor is the part of an account that the bytes of one client's body may take: an eighth.
const shareDivisor = 8

// noticeDivisor is the part of an account that the bodies may take which are read only to notice clients that leave: a quarter.
// The rest is left to those whose values are needed.
const noticeDivisor = 4

// Account counts the bytes of bodies that a process holds at once, and whose they are. One account serves all sites of
// a process, and lives over reloads. It is safe for concurrent use.
//
// A body counts with the memory that it takes: its buffer, which may have room for more, and 256 bytes beside it. What
// a buffer was before it grew is the garbage collector's, and does not count.
type Account struct {
	limit    atomic.Int64 // bytes that all may hold
	held     atomic.Int64 // bytes that all hold
	noticing atomic.Int64 // bytes of these that are held to notice clients that leave; they are in no client's share

	shares limiter.Shards[shares]
}

// shares are the bytes that clients hold. A client that holds none has no entry. A body counts with more than 256
// bytes, so that the entries are bounded by the account.
type shares struct {
	mu   sync.Mutex
	held map[string]int64
	most int // entries at once in this map
}

// fewShares is how many entries a map may have had to be kept when it is empty. Maps do not shrink.
const fewShares = 256

// NewAccount returns an account of bodies, which may hold that many bytes at once.
func NewAccount(limit int64) *Account {
	a := new(Account)
	a.limit.Store(limit)
	return a
}

// SetLimit sets how many bytes all bodies may hold at once. Bodies that are held stay.
func (a *Account) SetLimit(limit int64) { a.limit.Store(limit) }

// Held returns how many bytes all bodies hold.
func (a *Account) Held() int64 { return a.held.Load() }

// LargestBody returns the size in bytes of the largest body for which an account of such a limit ever has room: an eighth,
// rounded down, and at least 0. One client may hold that, and what a body takes beside its bytes.
func LargestBody(limit int64) int64 { return max(0, limit/shareDivisor) }

// LimitFor returns the smallest limit in bytes of an account that ever has room for a body of a size.
func LimitFor(size int64) int64 { return size * shareDivisor }

// charge takes bytes for a client's body. It returns [NoShare] or [NoRoom], and takes nothing, where they are too many,
// else undecided.
func (a *Account) charge(client string, bytes int64) ReadResult {
	limit := a.limit.Load()
	s := a.shares.Of(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	share := s.held[client] + bytes
	if share > LargestBody(limit)+overhead {
		return NoShare
	}
	if !addUpTo(&a.held, bytes, limit) {
		return NoRoom
	}
	if s.held == nil {
		s.held = make(map[string]int64)
	}
	s.held[client] = share
	s.most = max(s.most, len(s.held))
	return undecided
}

// addUpTo adds to a sum unless that would be more than a limit, and reports whether it has.
func addUpTo(sum *atomic.Int64, more, limit int64) bool {
	for {
		before := sum.Load()
		if before+more > limit {
			return false
		}
		if sum.CompareAndSwap(before, before+more) {
			return true
		}
	}
}

// chargeToNotice takes bytes for a body that is read only to notice its client leave, and reports whether there are so many.
func (a *Account) chargeToNotice(bytes int64) bool {
	limit := a.limit.Load()
	if !addUpTo(&a.noticing, bytes, limit/noticeDivisor) {
		return false
	}
	if !addUpTo(&a.held, bytes, limit) {
		a.noticing.Add(-bytes)
		return false
	}
	return true
}

// giveBackOfNotice gives back bytes that chargeToNotice has taken.
func (a *Account) giveBackOfNotice(bytes int64) {
	a.held.Add(-bytes)
	a.noticing.Add(-bytes)
}

// giveBack gives back bytes that were charged for a client's body.
func (a *Account) giveBack(client string, bytes int64) {
	a.held.Add(-bytes)
	s := a.shares.Of(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	if share := s.held[client] - bytes; share > 0 {
		s.held[client] = share
		return
	}
	delete(s.held, client)
	if len(s.held) == 0 && s.most > fewShares {
		s.held, s.most = nil, 0
	}
}
