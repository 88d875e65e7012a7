package waiting

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// world is the time that a test moves, with the timer of one queue.
type world struct {
	now   clock.Moment
	due   clock.Moment // 0: the timer is not set
	fires func()
}

func newWorld() *world { return &world{now: clock.Moment(time.Hour)} }

// After implements [Environment].After.
func (w *world) After(d time.Duration, f func()) clock.Timer {
	w.fires = f
	w.Reset(d)
	return w
}

// Reset implements [clock.Timer].
func (w *world) Reset(d time.Duration) bool {
	w.due = w.now.Add(max(1, d))
	return true
}

// Stop implements [clock.Timer].
func (w *world) Stop() bool {
	w.due = 0
	return true
}

// advance moves the time, and fires the timer when it is due.
func (w *world) advance(by time.Duration) {
	for end := w.now.Add(by); ; {
		if w.due == 0 || w.due > end {
			w.now = end
			return
		}
		w.now, w.due = max(w.now, w.due), 0
		w.fires()
	}
}

func (w *world) environment() Environment {
	return Environment{Now: func() clock.Moment { return w.now }, After: w.After, Jitter: func() float64 { return 0.5 }}
}

// units is what the store of a test gives out.
type units struct {
	count int64
	gone  bool
}

// pending is an ask that waits for its answer.
type pending struct {
	ask      Ask
	answered func(Answer[*units])
	asked    clock.Moment
}

// handStore is a store whose answers a test gives. It counts what is taken.
type handStore struct {
	t       testing.TB
	world   *world
	pending []pending
	asks    int
	taken   int64
	handed  int
	given   []*units // that were released
}

func (s *handStore) Try(ask Ask, answered func(Answer[*units])) {
	s.asks++
	s.pending = append(s.pending, pending{ask, answered, s.world.now})
}

func (s *handStore) Release(held *units) {
	assert.ErrorIf(s.t, held.gone, "%d units are released twice", held.count)
	held.gone = true
	s.taken -= held.count
	s.given = append(s.given, held)
}

func (s *handStore) HandOn(held *units, count int64) *units {
	assert.ErrorIf(s.t, held.gone || count < 1 || count > held.count, "%d of %+v units are handed on", count, held)
	held.gone = true
	s.taken -= held.count - count
	s.handed++
	return &units{count: count}
}

// next takes the oldest ask out.
func (s *handStore) next() pending {
	p := s.pending[0]
	s.pending = s.pending[1:]
	return p
}

// grant answers the oldest ask with its units.
func (s *handStore) grant(free int64, c Claim) {
	p := s.next()
	s.taken += p.ask.Weight
	p.answered(Granted[*units]{&units{count: p.ask.Weight}, free, c})
}

// deny answers the oldest ask with a denial, whose turn is as old as the node has said.
func (s *handStore) deny(c Claim) {
	p := s.next()
	p.answered(Denied[*units]{s.world.now.Since(p.asked) + time.Duration(p.ask.Turn.Age)*time.Microsecond, c})
}

// fail answers the oldest ask with nothing.
func (s *handStore) fail() { s.next().answered(Unknown[*units]{}) }

// newHandQueue returns a queue over a store whose answers the test gives.
func newHandQueue(t testing.TB) (*world, *handStore, *Queue[*units]) {
	t.Helper()
	w := newWorld()
	s := &handStore{t: t, world: w}
	return w, s, NewQueue(s, w.environment())
}

// running returns a policy that counts running requests.
func running(t testing.TB, limit int64) *limiter.Policy {
	t.Helper()
	return assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "gpu", MaxConcurrent: limit}))(t)
}

// outcomeNow returns the outcome that a request has; ok is false while it waits.
func outcomeNow(t *Ticket[*units]) (o waitEnd[*units], ok bool) {
	select {
	case o = <-t.ended:
		return o, true
	default:
		return o, false
	}
}
