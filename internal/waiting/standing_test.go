package waiting

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// standings has requests wait for one place, by whose names a test changes what applies to them.
type standings struct {
	testing.TB
	world *world
	store *handStore
	queue *Queue[*units]
	now   map[string]Standing // of others: their own policy
}

func newStandings(t testing.TB) *standings {
	s := &standings{TB: t, now: map[string]Standing{}}
	s.world, s.store, s.queue = newHandQueue(t)
	return s
}

// join has a request of a name wait, for a limit of 2.
func (s *standings) join(name string, weight int64) *Ticket[*units] {
	r := request(s, 2, weight)
	own := r.Policy
	r.Longest = time.Minute
	r.Current = func() Standing {
		if now := s.now[name]; now != nil {
			return now
		}
		return Under{own}
	}
	return s.queue.Join(r)
}

// wait has requests of these names wait, the first of which was denied.
func (s *standings) wait(names ...string) map[string]*Ticket[*units] {
	tickets := map[string]*Ticket[*units]{}
	for _, name := range names {
		tickets[name] = s.join(name, 1)
	}
	s.store.deny(NoClaim())
	return tickets
}

// TestQueue_Reconsider changes what applies while requests wait, behind the head too.
func TestQueue_Reconsider(t *testing.T) {
	t.Run("free", func(t *testing.T) {
		s := newStandings(t)
		tickets := s.wait("head", "free", "other")
		s.now["free"] = Free{Exempted: true}
		s.world.advance(time.Second)
		s.queue.Reconsider("another")
		waits(t, tickets["free"])
		s.queue.Reconsider("gpu")
		place := has(t, tickets["free"], nil)
		assert.FatalIf(t, place.Free == nil || !place.Free.Exempted || place.Waited != time.Second || place.units != 0, "it has %+v", place)
		place.End()
		waits(t, tickets["head"])
		assert.FatalIf(t, s.store.taken != 0 || len(s.store.given) != 0, "%d units are taken, %d released", s.store.taken, len(s.store.given))
		s.now["head"], s.now["other"] = Free{}, Free{}
		s.queue.Reconsider("")
		assert.ErrorIf(t, has(t, tickets["head"], nil).Free.Exempted, "one that needs no units has been exempted")
		has(t, tickets["other"], nil)
		assert.Equal(t, s.queue.waiting.Load(), 0, "requests that wait")
	})
	t.Run("free, asked for", func(t *testing.T) {
		s := newStandings(t)
		tickets := s.wait("head")
		s.world.advance(time.Second) // another ask is under way
		s.now["head"] = Free{}
		s.queue.Reconsider("gpu")
		has(t, tickets["head"], nil).End()
		s.store.grant(0, NoClaim())
		assert.FatalIf(t, s.store.taken != 0 || len(s.queue.shards.Of("k").lines) != 0, "%d units are taken", s.store.taken)
	})
	t.Run("blocked", func(t *testing.T) {
		s := newStandings(t)
		tickets := s.wait("head", "blocked")
		s.now["blocked"] = Blocked{}
		s.queue.Reconsider("gpu")
		has(t, tickets["blocked"], ErrBlocked)
		waits(t, tickets["head"])
		assert.Equal(t, len(s.store.pending), 0, "asks for a head to which the same applies")
	})
	t.Run("another limit", func(t *testing.T) {
		s := newStandings(t)
		heavy := s.join("light", 2)
		tickets := s.wait("light", "last")
		_ = heavy
		s.now["light"] = Under{running(t, 1)}
		s.queue.Reconsider("gpu")
		has(t, heavy, ErrNever)
		waits(t, tickets["light"])
		assert.Equal(t, s.store.pending[0].ask.Policy.Limit(), 1, "the limit of the ask, before its time")
		s.now["light"] = Under{running(t, 5)}
		s.queue.Reconsider("gpu") // which follows the ask that is under way
		s.store.deny(NoClaim())
		assert.Equal(t, s.store.pending[0].ask.Policy.Limit(), 5, "the limit of the next ask")
		s.store.grant(3, NoClaim())
		has(t, tickets["light"], nil)
		waits(t, tickets["last"])
	})
	t.Run("as it comes", func(t *testing.T) {
		s := newStandings(t)
		head := s.join("head", 1)
		s.now["late"] = Free{} // after the request was evaluated
		has(t, s.join("late", 1), nil)
		s.now["late"] = Blocked{}
		has(t, s.join("late", 1), ErrBlocked)
		waits(t, head)
		s.queue.Reconsider("gpu")
		s.now["head"] = Under{Policy: running(t, 4)}
		s.store.grant(0, NoClaim()) // of the limit before
		s.store.grant(0, NoClaim())
		has(t, head, nil)
	})
}

// TestQueue_Reconsider_keys reconsiders all keys of a policy, and none of others.
func TestQueue_Reconsider_keys(t *testing.T) {
	s := newStandings(t)
	r := request(t, 2, 1)
	r.Current = func() Standing { return Under{running(t, 2)} }
	other := assert.NoError(limiter.NewPolicy(limiter.Settings{Name: "php", MaxConcurrent: 1}))(t)
	var tickets []*Ticket[*units]
	for _, key := range []string{"a", "b", "c"} {
		r.Key = limiter.EncodeKey(key)
		tickets = append(tickets, s.queue.Join(r))
	}
	r.Policy, r.Current = other, func() Standing { return Blocked{} }
	s.queue.Reconsider("")
	for _, ticket := range tickets {
		waits(t, ticket)
		ticket.request.Current = r.Current
	}
	s.queue.Reconsider("php")
	waits(t, tickets[0])
	s.queue.Reconsider("gpu")
	for _, ticket := range tickets {
		has(t, ticket, ErrBlocked)
	}
}
