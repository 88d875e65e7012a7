package waiting

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// lineModel is the rule of the queue for one key, written down as plainly as possible: a list of all that wait.
type lineModel struct {
	waiting []*modelRequest // in the order of their arrival
	turns   map[Order]turnModel
	changes int

	heard          clock.Moment // the last answer that told of claims
	hears, foreign bool
	claim          clock.Moment
}

type turnModel struct {
	at     clock.Moment
	change int
}

type modelRequest struct {
	Request
	ticket  *Ticket[*units]
	arrived clock.Moment
}

func (m *lineModel) of(o Order) (all []*modelRequest) {
	for _, r := range m.waiting {
		if r.Order == o {
			all = append(all, r)
		}
	}
	return all
}

// setTurn has a value's turn begin.
func (m *lineModel) setTurn(o Order, at clock.Moment) {
	m.changes++
	m.turns[o] = turnModel{at, m.changes}
}

// head returns who has the next place: the first of the value with the oldest turn.
func (m *lineModel) head() (head *modelRequest) {
	var oldest turnModel
	for _, r := range m.waiting {
		if m.of(r.Order)[0] != r {
			continue
		}
		turn := m.turns[r.Order]
		if !r.Order.byValue {
			turn.at = r.arrived
		}
		if head == nil || turn.at < oldest.at || turn.at == oldest.at && turn.change < oldest.change {
			head, oldest = r, turn
		}
	}
	return head
}

// turnOf returns when the turn of a request began.
func (m *lineModel) turnOf(r *modelRequest) clock.Moment {
	if !r.Order.byValue {
		return r.arrived
	}
	return m.turns[r.Order].at
}

func (m *lineModel) remove(r *modelRequest) {
	m.waiting = slices.DeleteFunc(m.waiting, func(other *modelRequest) bool { return other == r })
}

// handsOn reports whether a place may go on at a moment without a question.
func (m *lineModel) handsOn(now clock.Moment) bool {
	if !m.hears || now.Since(m.heard) >= 250*time.Millisecond {
		return false
	}
	slack := max(0, min(time.Second, now.Since(m.claim).Truncate(time.Microsecond)/2).Truncate(time.Microsecond))
	return !m.foreign || m.turnOf(m.head()) <= m.claim.Add(slack)
}

// game is a queue and its model, moved together.
type game struct {
	*rapid.T
	world  *world
	store  *handStore
	queue  *Queue[*units]
	model  lineModel
	limit  int64
	places []*Place[*units]
	done   int // requests with an outcome
	joined int
	free   int64 // units that the last answer has left
}

const mostInGame = 5

func newGame(t *rapid.T, tb testing.TB) *game {
	w, s, q := newHandQueue(tb)
	limit := rapid.Int64Range(3, 6).Draw(t, "limit")
	return &game{T: t, world: w, store: s, queue: q, limit: limit, model: lineModel{turns: map[Order]turnModel{}}}
}

// join has a request come, and checks who is refused or pushed out.
func (g *game) join(tb testing.TB) {
	r := &modelRequest{arrived: g.world.now, Request: Request{
		Policy: running(tb, g.limit+rapid.Int64Range(0, 1).Draw(g.T, "more")), Key: limiter.EncodeKey("k"), Most: mostInGame,
		Weight:  rapid.Int64Range(1, 3).Draw(g.T, "weight"),
		Longest: time.Duration(rapid.IntRange(1, 3000).Draw(g.T, "longest")) * time.Millisecond,
	}}
	if value := rapid.IntRange(-1, 3).Draw(g.T, "value"); value >= 0 {
		r.Order = ByValue(uint64(value))
	}
	room := mostInGame
	if l := g.line(); l == nil || !l.round.full {
		room += int(r.Policy.Limit()) // of which some may be about to start
	}
	full, own, most := len(g.model.waiting) >= room, len(g.model.of(r.Order)), 0
	for _, other := range g.model.waiting {
		most = max(most, len(g.model.of(other.Order)))
	}
	r.ticket = g.queue.Join(r.Request)
	g.joined++
	if full && most < own+2 {
		o, ok := outcomeNow(r.ticket)
		g.must(ok && errors.Is(o.err, ErrFull), "a request without room has %+v, %v", o, ok)
		g.done++
		return
	}
	if full {
		out := slices.IndexFunc(g.model.waiting, func(other *modelRequest) bool { return other.ticket.flow == nil })
		g.must(out >= 0, "none is pushed out")
		o, _ := outcomeNow(g.model.waiting[out].ticket)
		same := g.model.of(g.model.waiting[out].Order)
		g.must(errors.Is(o.err, ErrPushedOut) && len(same) == most && same[most-1] == g.model.waiting[out],
			"of %d requests of a value, %d is pushed out by %v", len(same), slices.Index(same, g.model.waiting[out]), o.err)
		g.done++
		g.model.remove(g.model.waiting[out])
	}
	if own == 0 {
		g.model.setTurn(r.Order, r.arrived)
	}
	g.model.waiting = append(g.model.waiting, r)
}

func (g *game) must(holds bool, format string, args ...any) {
	if !holds {
		g.Fatalf(format, args...)
	}
}

// settle follows what a move has done to those that wait.
func (g *game) settle() {
	for again := true; again; {
		again = false
		for _, r := range slices.Clone(g.model.waiting) {
			o, ok := outcomeNow(r.ticket)
			if !ok {
				continue
			}
			again = true
			g.done++
			if o.place == nil && errors.Is(o.err, ErrFull) { // it came while places might have been free
				g.must(len(g.model.waiting) > mostInGame, "of %d requests one is refused", len(g.model.waiting))
				g.model.remove(r)
				continue
			}
			if o.place == nil {
				g.must(errors.Is(o.err, ErrTimeout) && g.world.now >= r.arrived.Add(r.Longest), "a request ends with %v", o.err)
				g.model.remove(r)
				continue
			}
			g.must(r == g.model.head(), "a request of %+v starts before the head", r.Order)
			g.must(o.place.units == r.Weight && o.place.Held.count == r.Weight, "a request of %d units has %+v", r.Weight, o.place)
			g.places = append(g.places, o.place)
			if r.Order.byValue {
				g.model.setTurn(r.Order, g.world.now)
			}
			g.model.remove(r)
			break // who is next depends on it
		}
	}
}

// end has a request end, whose place goes on if the rule says so, and only then.
func (g *game) end() {
	at := rapid.IntRange(0, len(g.places)-1).Draw(g.T, "place")
	p := g.places[at]
	g.places = slices.Delete(g.places, at, at+1)
	head, handed := g.model.head(), g.store.handed
	goesOn := head != nil && head.Weight <= p.units && head.Policy.Limit() == p.policy.Limit() && g.model.handsOn(g.world.now)
	p.End()
	p.End()
	g.must(goesOn == (g.store.handed > handed), "a place is handed on: %v, want %v", !goesOn, goesOn)
}

// answer answers an ask at random, a grant only where there is room.
func (g *game) answer() {
	at := rapid.IntRange(0, len(g.store.pending)-1).Draw(g.T, "ask")
	p := g.store.pending[at]
	g.store.pending = slices.Delete(g.store.pending, at, at+1)
	c := NoClaim()
	if age := rapid.IntRange(-1500, 1500).Draw(g.T, "claim"); age >= 0 {
		c = ForeignClaim(time.Duration(age) * time.Millisecond)
	}
	kind := rapid.IntRange(0, 9).Draw(g.T, "answer")
	free := p.ask.Policy.Limit() - g.store.taken - p.ask.Weight
	if kind == 0 {
		g.free, g.model.hears = 0, false
		p.answered(Unknown[*units]{})
		return
	}
	g.model.heard, g.model.hears, g.model.foreign, g.model.claim = g.world.now, true, c.foreign, p.asked.Add(-c.age)
	if kind < 4 || free < 0 {
		g.free = 0
		age := time.Duration(p.ask.Turn.Age) * time.Microsecond
		if p.ask.Turn.Slot != kernel.NoSlot {
			age = time.Duration(rapid.Int64Range(0, age.Microseconds()).Draw(g.T, "turn")) * time.Microsecond
			o := ByValue(uint64(p.ask.Turn.Slot))
			if turn := g.model.turns[o]; len(g.model.of(o)) > 0 && p.asked.Add(-age) > turn.at {
				g.model.turns[o] = turnModel{p.asked.Add(-age), turn.change}
			}
		}
		p.answered(Denied[*units]{age, c})
		return
	}
	g.free = free
	g.store.taken += p.ask.Weight
	p.answered(Granted[*units]{&units{count: p.ask.Weight}, free, c})
}

// leave has a client go, also one whose place is on its way.
func (g *game) leave() {
	r := g.model.waiting[rapid.IntRange(0, len(g.model.waiting)-1).Draw(g.T, "request")]
	g.must(errors.Is(r.ticket.Leave(), ErrLeft), "it has not left")
	g.model.remove(r)
	g.done++
}

// check holds the promises that do not depend on a move.
func (g *game) check() {
	g.settle()
	g.must(g.joined == g.done+len(g.model.waiting), "of %d requests %d wait and %d have an outcome", g.joined, len(g.model.waiting), g.done)
	waiting := g.queue.ByPolicy()["gpu"].Count
	counted, inRoom := g.queue.waiting.Load(), g.queue.around.Room.used.Load()
	g.must(waiting == len(g.model.waiting) && counted == int64(waiting) && inRoom == int64(waiting),
		"%d wait, %d by the count, %d in the room, want %d", waiting, counted, inRoom, len(g.model.waiting))
	have := int64(0)
	for _, p := range g.places {
		have += p.units
	}
	g.must(have == g.store.taken, "the store has given out %d units, and %d are in use", g.store.taken, have)
	l := g.line()
	if l == nil {
		g.model.hears = false // what was known of the key is gone with its last request
		g.must(len(g.model.waiting)+len(g.store.pending) == 0 && g.queue.rates.Load() == 0, "the line is gone")
		return
	}
	g.must(l.round.asking == len(g.store.pending), "the line waits for %d answers of %d", l.round.asking, len(g.store.pending))
	g.must(l.waiting == 0 || (l.round.asking > 0) != (l.index > 0),
		"%d answers are to come, and the next ask has place %d", l.round.asking, l.index)
	for _, r := range g.model.waiting {
		g.must(r.arrived.Add(r.Longest+tickSpan) > g.world.now || l.round.asking > 0, "a request waits for too long")
	}
}

// line returns the key's line; nil: there is none.
func (g *game) line() *line[*units] {
	return g.queue.shards.Of("k").lines[limiter.QuotaName{Policy: running(g.store.t, g.limit).ID, Key: "k"}]
}

// checkAsks holds that one round is under way: one ask, or as many as the last grant has left room for.
func (g *game) checkAsks(before, asks int) {
	left := asks - g.store.asks
	if left == 0 {
		return
	}
	g.must(before == 0 || len(g.store.pending) == -left, "%d asks leave while %d are under way", -left, before)
	sum, claims := int64(0), 0
	for _, p := range g.store.pending {
		sum += p.ask.Weight
		if p.ask.Turn.Claim > 0 {
			claims++
		}
	}
	g.must(claims == 1, "%d asks lay a claim", claims)
	g.must(len(g.store.pending) == 1 || sum <= g.free, "asks for %d units leave where %d are free", sum, g.free)
}

// TestQueue_model plays random moves on the queue and the model.
func TestQueue_model(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newGame(rt, t)
		play := func(can func() bool, move func()) func(*rapid.T) {
			return func(rt *rapid.T) {
				if g.T = rt; !can() {
					rt.Skip("not now")
				}
				before, asks := len(g.store.pending), g.store.asks
				move()
				g.checkAsks(before, asks)
			}
		}
		always := func() bool { return true }
		rt.Repeat(map[string]func(*rapid.T){
			"":      func(rt *rapid.T) { g.T = rt; g.check() },
			"join":  play(always, func() { g.join(t) }),
			"join2": play(always, func() { g.join(t) }),
			"leave": play(func() bool { return len(g.model.waiting) > 0 }, func() { g.leave() }),
			"end":   play(func() bool { return len(g.places) > 0 }, func() { g.end() }),
			"answer": play(func() bool { return len(g.store.pending) > 0 }, func() {
				g.answer()
			}),
			"advance": play(always, func() {
				g.free = 0
				g.world.advance(time.Duration(rapid.IntRange(1, 400_000).Draw(rt, "µs")) * time.Microsecond)
			}),
		})
	})
}
