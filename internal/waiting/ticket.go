package waiting

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Request is one that needs units of running requests.
type Request struct {
	Policy  *limiter.Policy // one that counts running requests
	Key     limiter.EncodedKey
	Weight  int64         // units, at least 1
	Longest time.Duration // the longest wait
	Most    int           // of the key on this node that wait at once, at least 1
	Order   Order

	// FailMode says how the store decides the request's asks when it cannot ask all nodes' counts.
	FailMode limiter.FailMode

	// Current returns what applies to the request now. It runs under a lock, in any goroutine. Nil: Policy stays.
	Current func() Standing
}

// Order is what requests of one key have their turns by. The zero value is the order of their arrival.
type Order struct {
	byValue bool
	value   uint64
}

// ByValue has turns go round by value, by a hash that is the same on all nodes. Requests of one value follow one another
// in the order of their arrival.
func ByValue(hash uint64) Order { return Order{true, hash} }

// Why a request has got no place. Each is the whole error of a [Ticket.Wait].
var (
	ErrTimeout   = errors.New("the request has waited for as long as it may")
	ErrFull      = errors.New("as many requests of the key wait as may")
	ErrNoRoom    = errors.New("as many requests wait in this process as may")
	ErrPushedOut = errors.New("a request of a value with fewer waiting requests has taken the request's place in the queue")
	ErrLeft      = errors.New("the client has left")
	ErrExit      = errors.New("the process ends, or its last configuration with this store")
	ErrNever     = errors.New("the request needs more units than the limit has")
	ErrBlocked   = errors.New("the request has been blocked meanwhile")
)

// Ticket is a request's place in the queue. Its shard's lock guards it.
type Ticket[H any] struct {
	queue   owner[H]
	request Request
	arrived clock.Moment
	over    clock.Moment // when the request has waited for as long as it may

	flow           *flow[H] // nil: the request does not wait
	earlier, later *Ticket[H]
	index          int // in its shard's heap of deadlines

	ended chan waitEnd[H] // takes the one end of the wait
}

// refresh looks up what applies to the request. The error says why it cannot start; free is nil unless the request needs no units.
func (t *Ticket[H]) refresh() (free *Free, why error) {
	r := &t.request
	if r.Current == nil {
		return nil, nil //nolint:nilnil // the request waits on
	}
	switch current := r.Current().(type) {
	case Under:
		r.Policy = current.Policy
		return nil, r.fits()
	case Free:
		return &current, nil
	}
	return nil, ErrBlocked
}

// fits returns [ErrNever] if the request can never start.
func (r *Request) fits() error {
	if r.Weight > r.Policy.Params.Limit {
		return ErrNever
	}
	return nil
}

// owner is the queue that has given out tickets and places.
type owner[H any] interface {
	leave(t *Ticket[H]) (left bool)
	end(p *Place[H])
}

// waitEnd is how the wait of a request ended: with a place, or with an error.
type waitEnd[H any] struct {
	place *Place[H]
	err   error
}

func (t *Ticket[H]) before(other *Ticket[H]) bool { return t.over < other.over }
func (t *Ticket[H]) place() *int                  { return &t.index }

// Wait returns the request's place once it has one, or why it gets none. Where the context ends first, the request leaves
// the queue and the error is [ErrLeft]. It is called once.
func (t *Ticket[H]) Wait(ctx context.Context) (*Place[H], error) {
	select {
	case end := <-t.ended:
		return end.place, end.err
	case <-ctx.Done():
		return nil, t.Leave()
	}
}

// HasOutcomeWithin reports whether the request has a place or an error within a time. Wait or Leave must still follow.
func (t *Ticket[H]) HasOutcomeWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case end := <-t.ended:
		t.ended <- end // a wait has but one end, so that the channel has room
		return true
	case <-timer.C:
		return false
	}
}

// Leave takes the request out of the queue, instead of Wait. A place that the request has got meanwhile goes on to the
// next. It returns [ErrLeft], or the other error that the request has ended with.
func (t *Ticket[H]) Leave() error {
	if t.queue.leave(t) {
		return ErrLeft
	}
	end := <-t.ended // the request has left the queue, and its end is here or about to be
	if end.place != nil {
		end.place.End()
		return ErrLeft
	}
	return end.err
}

// Place is units that a request has until its end, or the leave to start without any.
type Place[H any] struct {
	Free     *Free // nil: the place has units
	Held     H
	HandedOn bool          // from a request of this process, without a question to the store
	Waited   time.Duration // since the request arrived

	queue  owner[H]
	policy *limiter.Policy
	key    limiter.EncodedKey
	units  int64
	ended  atomic.Bool
}

// End gives the units to who waits for them, or returns them to the store. Only the first call does something.
func (p *Place[H]) End() {
	if !p.ended.Swap(true) && p.Free == nil {
		p.queue.end(p)
	}
}
