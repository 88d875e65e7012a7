package waiting

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// request returns one of the key k, which may wait for a second.
func request(t testing.TB, limit, weight int64) Request {
	return Request{Policy: running(t, limit), Key: limiter.EncodeKey("k"), Weight: weight, Longest: time.Second, Most: 100}
}

// has fails unless a request has a place, or ended with an error.
func has(t testing.TB, ticket *Ticket[*units], why error) *Place[*units] {
	t.Helper()
	o, ok := outcomeNow(ticket)
	if !ok || !errors.Is(o.err, why) || (o.place == nil) == (why == nil) {
		t.Fatalf("a request has %+v, %v; want %v", o, ok, why)
	}
	return o.place
}

// waits fails unless a request waits.
func waits(t testing.TB, ticket *Ticket[*units]) {
	t.Helper()
	if o, ok := outcomeNow(ticket); ok {
		t.Fatalf("a request has %+v", o)
	}
}

// TestQueue_asks has requests come, and looks at what the store is asked for.
func TestQueue_asks(t *testing.T) {
	w, s, q := newHandQueue(t)
	r := request(t, 8, 1)
	r.Longest = 5 * time.Second
	first, r2 := q.Join(r), r
	r2.Weight = 2
	second, third := q.Join(r2), q.Join(r2)
	assert.Equal(t, s.pending[0].ask.Turn, kernel.Turn{Claim: 250_000, Slot: kernel.NoSlot, LastSlot: kernel.NoSlot}, "the first ask")
	w.advance(300 * time.Millisecond)
	assert.Equal(t, s.asks, 1, "asks while one is under way")
	s.deny(NoClaim())
	w.advance(100 * time.Millisecond)
	assert.Equal(t, s.pending[0].ask.Turn.Age, 309_000, "the age in the second ask, after 3/4 of a 25th")
	s.grant(3, NoClaim())
	has(t, first, nil)
	assert.FatalIf(t, len(s.pending) != 1 || s.pending[0].ask.Weight != 2, "3 free units have asks leave for %+v", s.pending)
	s.grant(4, NoClaim())
	place := has(t, second, nil)
	s.grant(2, NoClaim())
	has(t, third, nil)
	assert.Equal(t, len(s.pending), 0, "asks while none waits")
	place.End()
	assert.FatalIf(t, len(s.given) != 1 || s.taken != 3 || len(s.pending) != 0, "an end while none waits leaves %d units", s.taken)
}

// TestQueue_asks_at_once has another ask follow at once where something has changed since the last one left.
func TestQueue_asks_at_once(t *testing.T) {
	start := func(t *testing.T) (*world, *handStore, *Queue[*units], *Place[*units]) {
		w, s, q := newHandQueue(t)
		first := q.Join(request(t, 3, 1))
		s.grant(0, NoClaim())
		return w, s, q, has(t, first, nil)
	}
	t.Run("a request has ended", func(t *testing.T) {
		w, s, q, place := start(t)
		r := request(t, 3, 2) // more than the place has
		q.Join(r)
		place.End()
		assert.Equal(t, len(s.pending), 1, "asks under way")
		s.deny(NoClaim())
		assert.FatalIf(t, len(s.pending) != 1 || w.now != s.pending[0].asked, "%d asks are under way", len(s.pending))
		s.deny(NoClaim())
		assert.Equal(t, len(s.pending), 0, "asks when nothing has changed")
	})
	t.Run("another value has an older turn", func(t *testing.T) {
		w, s, q, _ := start(t)
		for value := range uint64(2) {
			r := request(t, 3, 1)
			r.Order = ByValue(value)
			q.Join(r)
			w.advance(time.Millisecond)
		}
		s.deny(NoClaim())
		w.advance(10 * time.Millisecond)
		s.next().answered(Denied[*units]{0, NoClaim()}) // one of the value has just started on another node
		assert.FatalIf(t, len(s.pending) != 1 || s.pending[0].asked != w.now || s.pending[0].ask.Turn.Slot != 1, "asks: %+v", s.pending)
	})
	t.Run("the head needs less than is granted", func(t *testing.T) {
		_, s, q, _ := start(t)
		left, head := q.Join(request(t, 3, 2)), q.Join(request(t, 3, 1))
		q.Join(request(t, 3, 1))
		_ = left.Leave()
		s.grant(0, NoClaim())
		has(t, head, nil)
		assert.FatalIf(t, len(s.pending) != 1 || s.taken != 2, "%d asks are under way, %d units taken", len(s.pending), s.taken)
	})
}

// TestQueue_values has an ask tell the slot of the head, and of the last start.
func TestQueue_values(t *testing.T) {
	w, s, q := newHandQueue(t)
	r := request(t, 8, 1)
	r.Order = ByValue(64 + 7)
	a := q.Join(r)
	r.Order = ByValue(9)
	b := q.Join(r)
	s.grant(0, NoClaim())
	has(t, a, nil)
	assert.Equal(t, len(s.pending), 0, "asks where no unit is free")
	w.advance(100 * time.Millisecond)
	turn := s.pending[0].ask.Turn
	assert.FatalIf(t, turn.Slot != 9 || turn.LastSlot != 7 || turn.LastAge != turn.Age || turn.Age == 0, "an ask tells %+v", turn)
	waits(t, b)
}

// TestQueue_hand_on has a place go on where the last answer allows that, and only there.
func TestQueue_hand_on(t *testing.T) {
	far, near := ForeignClaim(5*time.Second), ForeignClaim(250*time.Millisecond)
	for name, test := range map[string]struct {
		claim       Claim
		later       time.Duration
		limit, unit int64
		unknown     bool
		want        bool
	}{
		"no claim":                   {NoClaim(), 0, 3, 1, false, true},
		"of fewer units":             {NoClaim(), 0, 3, 2, false, true},
		"more units":                 {NoClaim(), 0, 3, 3, false, false},
		"another limit":              {NoClaim(), 0, 4, 1, false, false},
		"an answer that is just new": {NoClaim(), 249 * time.Millisecond, 3, 1, false, true},
		"an old answer":              {NoClaim(), 250 * time.Millisecond, 3, 1, false, false},
		"a claim within the slack":   {near, 0, 3, 1, false, true},
		"an older claim":             {far, 0, 3, 1, false, false},
		"more than the limit runs":   {ForeignClaim(55 * 365 * 24 * time.Hour), 0, 3, 1, false, false},
		"an answer without claims":   {Claim{}, 0, 3, 1, false, false},
		"no answer since":            {NoClaim(), 0, 3, 1, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, s, q := newHandQueue(t)
			first, second := q.Join(request(t, 3, 2)), request(t, test.limit, test.unit)
			waiting := q.Join(second)
			w.advance(300 * time.Millisecond) // so that the slack of a claim is small beside the wait
			s.grant(0, test.claim)
			place := has(t, first, nil)
			if test.unknown {
				w.advance(20 * time.Millisecond)
				s.fail()
			}
			w.due = 0 // no ask comes between
			w.now = w.now.Add(test.later)
			place.End()
			if !test.want {
				waits(t, waiting)
				assert.FatalIf(t, s.taken != 0 || len(s.pending) != 1, "an end leaves %d units, and %d asks", s.taken, len(s.pending))
				return
			}
			next := has(t, waiting, nil)
			assert.FatalIf(t, !next.HandedOn || s.taken != test.unit, "it has %+v of %d units", next, s.taken)
		})
	}
}

// TestQueue_deadline ends a wait at its time, and not before the first answer has told that no unit is free.
func TestQueue_deadline(t *testing.T) {
	w, s, q := newHandQueue(t)
	r := request(t, 1, 1)
	r.Longest = time.Millisecond
	a, b := q.Join(r), q.Join(r)
	w.advance(100 * time.Millisecond)
	waits(t, a)
	s.grant(1, NoClaim())
	has(t, a, nil)
	w.advance(100 * time.Millisecond)
	waits(t, b)
	s.deny(NoClaim())
	has(t, b, ErrTimeout)
	r.Longest = 100 * time.Millisecond
	c, d := q.Join(r), q.Join(r)
	s.deny(NoClaim())
	w.advance(100*time.Millisecond - 1)
	waits(t, c)
	w.advance(1)
	has(t, c, ErrTimeout)
	has(t, d, ErrTimeout)
	for len(s.pending) > 0 {
		s.grant(0, NoClaim())
	}
	assert.FatalIf(t, s.taken != 1 || q.waiting.Load() != 0 || q.rates.Load() != 0, "%d units, %d wait", s.taken, q.waiting.Load())
}

// TestQueue_grant_without_request releases what was granted for a request that has left.
func TestQueue_grant_without_request(t *testing.T) {
	_, s, q := newHandQueue(t)
	left := q.Join(request(t, 1, 1))
	assert.ErrorIf(t, !errors.Is(left.Leave(), ErrLeft), "it has not left")
	s.grant(0, NoClaim())
	assert.FatalIf(t, s.taken != 0 || len(s.given) != 1, "%d units are left", s.taken)
	late := q.Join(request(t, 1, 1))
	s.grant(0, NoClaim())
	next := q.Join(request(t, 1, 1))
	s.deny(NoClaim())
	assert.ErrorIf(t, !errors.Is(late.Leave(), ErrLeft), "it has not left, with its place")
	has(t, next, nil)
}

// TestQueue_gathers has a grant of fewer units than the head needs released: others stay behind the head.
func TestQueue_gathers(t *testing.T) {
	_, s, q := newHandQueue(t)
	first, head, small := q.Join(request(t, 3, 1)), q.Join(request(t, 3, 3)), q.Join(request(t, 3, 1))
	_ = first.Leave()
	s.grant(0, NoClaim())
	waits(t, small)
	assert.FatalIf(t, s.taken != 0 || len(s.pending) != 1 || s.pending[0].ask.Weight != 3, "%d units are taken, asks %+v", s.taken, s.pending)
	s.grant(0, NoClaim())
	big := has(t, head, nil)
	big.End() // its other units are free
	next := has(t, small, nil)
	assert.FatalIf(t, !next.HandedOn || s.taken != 1, "%d units are taken", s.taken)
}

// TestQueue_exit refuses all that wait within 50 ms of the process's end, and all that come once the queue is closed.
func TestQueue_exit(t *testing.T) {
	w := newWorld()
	s, exits, o := &handStore{t: t, world: w}, false, w.environment()
	o.Exiting = func() bool { return exits }
	q := NewQueue(s, o)
	r := request(t, 1, 1)
	r.Longest = time.Minute
	a, b := q.Join(r), q.Join(r)
	s.deny(ForeignClaim(time.Minute))
	w.advance(time.Second)
	waits(t, a)
	exits = true
	w.advance(50 * time.Millisecond)
	has(t, a, ErrExit)
	has(t, b, ErrExit)
	has(t, q.Join(r), ErrExit) // without a look at the store
	exits = false
	c := q.Join(r)
	q.Close()
	has(t, c, ErrExit)
	has(t, q.Join(r), ErrExit)
	for len(s.pending) > 0 {
		s.grant(0, NoClaim())
	}
	w.advance(time.Minute)
	assert.FatalIf(t, s.taken != 0 || q.waiting.Load() != 0 || w.due != 0,
		"%d units, %d wait, the timer is due at %v", s.taken, q.waiting.Load(), w.due)
}

// TestQueue_room shares its room with others, and pushes out where there is none.
func TestQueue_room(t *testing.T) {
	w := newWorld()
	o := w.environment()
	o.Room = NewRoom(3)
	o.Room.Enter() // of another part of the process
	q := NewQueue(&handStore{t: t, world: w}, o)
	r := request(t, 1, 1)
	a, b := q.Join(r), q.Join(r)
	has(t, q.Join(r), ErrNoRoom)
	r.Order = ByValue(1)
	c := q.Join(r)
	has(t, b, ErrPushedOut)
	r.Key = limiter.EncodeKey("another")
	has(t, q.Join(r), ErrNoRoom)
	_ = a.Leave()
	_ = c.Leave()
	o.Room.Leave()
	assert.Equal(t, o.Room.used.Load(), 0, "requests in the room")
	r.Weight = 2
	has(t, q.Join(r), ErrNever)
}

// TestQueue_current looks up at each ask and each start what applies: a block, and another limit, count from then on.
func TestQueue_current(t *testing.T) {
	var now Standing
	join := func(q *Queue[*units], weight int64) *Ticket[*units] {
		r := request(t, 3, weight)
		r.Current = func() Standing { return now }
		return q.Join(r)
	}
	under := func(limit int64) Standing { return Under{running(t, limit)} }
	t.Run("a block", func(t *testing.T) {
		now = under(3)
		_, s, q := newHandQueue(t)
		a, b := join(q, 1), join(q, 1)
		now = Blocked{}
		s.grant(2, NoClaim())
		has(t, a, ErrBlocked)
		has(t, b, ErrBlocked)
		assert.FatalIf(t, s.taken != 0 || len(s.pending) != 0, "%d units are taken, %d asks are under way", s.taken, len(s.pending))
	})
	t.Run("a lower limit", func(t *testing.T) {
		now = under(3)
		_, s, q := newHandQueue(t)
		first := join(q, 1)
		s.grant(0, NoClaim())
		place := has(t, first, nil)
		light, heavy := join(q, 1), join(q, 3)
		now = under(2)
		place.End()
		waits(t, light) // the place is one under another limit
		s.deny(NoClaim())
		assert.Equal(t, s.pending[0].ask.Policy.Limit(), 2, "the limit of the next ask")
		s.grant(1, NoClaim())
		has(t, light, nil)
		has(t, heavy, ErrNever)
	})
}

// TestTicket_Wait waits in goroutines, whose contexts end at any moment, with a store that answers at once.
func TestTicket_Wait(t *testing.T) {
	store := &countingStore{limit: 3}
	q := NewQueue(store, Environment{})
	var requests sync.WaitGroup
	for i := range 200 {
		requests.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond/4)
			defer cancel()
			r := request(t, 3, int64(1+i%3))
			r.Order, r.Most, r.Longest = ByValue(uint64(i%5)), 1000, time.Minute
			place, err := q.Join(r).Wait(ctx)
			if err == nil {
				place.End()
			} else {
				assert.ErrorIf(t, !errors.Is(err, ErrLeft), "a request ends with %v", err)
			}
		})
	}
	requests.Wait()
	assert.FatalIf(t, store.taken != 0 || q.waiting.Load() != 0, "%d units are taken, %d wait", store.taken, q.waiting.Load())
}

// countingStore is a store of one process, which answers before Try returns.
type countingStore struct {
	mu           sync.Mutex
	limit, taken int64
}

func (s *countingStore) take(count int64) (free int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken+count > s.limit {
		return 0, false
	}
	s.taken += count
	return s.limit - s.taken, true
}

func (s *countingStore) Try(ask Ask, answered func(Answer[int64])) {
	free, ok := s.take(ask.Weight)
	if !ok {
		answered(Denied[int64]{time.Duration(ask.Turn.Age) * time.Microsecond, NoClaim()})
		return
	}
	answered(Granted[int64]{ask.Weight, free, NoClaim()})
}

func (s *countingStore) Release(held int64) { s.take(-held) }

func (s *countingStore) HandOn(held, count int64) int64 {
	s.take(count - held)
	return count
}

// BenchmarkQueue_hostile has as many requests as may wait come and go, each of a value of its own, or all of one.
func BenchmarkQueue_hostile(b *testing.B) {
	for _, values := range []uint64{1, MostWaiting} {
		b.Run(strconv.FormatUint(values, 10), func(b *testing.B) {
			w := newWorld()
			q := NewQueue(&handStore{t: b, world: w}, w.environment())
			r := request(b, 1, 1)
			r.Most, r.Longest = MostWaiting, time.Minute
			tickets := make([]*Ticket[*units], MostWaiting)
			join := func(i int) {
				r.Order = ByValue(uint64(i) % values)
				tickets[i%MostWaiting] = q.Join(r)
			}
			for i := range MostWaiting {
				join(i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_ = tickets[i%MostWaiting].Leave()
				join(i)
			}
		})
	}
}

// TestQueue_forgotten has the store lose its data: until other nodes have told what they run, no ask leaves.
func TestQueue_forgotten(t *testing.T) {
	w, s, q := newHandQueue(t)
	first, second := q.Join(request(t, 1, 1)), request(t, 1, 1)
	s.grant(0, NoClaim())
	place := has(t, first, nil)
	second.Longest = time.Minute
	waiting := q.Join(second)
	s.next().answered(Forgotten[*units]{})
	w.advance(time.Second - 1)
	assert.Equal(t, s.asks, 2, "asks within a second")
	q.Join(second)
	place.End()
	assert.FatalIf(t, s.asks != 2 || len(s.given) != 1, "an end has %d asks, and %d places returned", s.asks, len(s.given))
	w.advance(1)
	assert.Equal(t, len(s.pending), 1, "asks after a second")
	s.grant(0, NoClaim())
	has(t, waiting, nil)
}
