package redis

import (
	"container/heap"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Tracker keeps the requests that this process runs by one Redis, and sends Redis what it needs of them.
type Tracker struct {
	Node   int64 // names this process in Redis
	epochs atomic.Int64
	Send   func(Run)   // hands a message over without waiting for the answer
	Failed func() bool // reports whether all of Redis fails
	Now    func() clock.Moment

	Shards   limiter.Shards[shard]
	Records  atomic.Int64
	policies sync.Map   // the first policy of each ID, so that states of one ID have one shape
	Ticks    clock.Task // sends the states that are due
	leaving  atomic.Bool
	next     int // the shard that the next tick begins with; only the tick uses it
}

// shard is the records of some keys.
type shard struct {
	Mu      sync.Mutex
	Records map[limiter.QuotaName]*record
	Due     dueHeap
}

// dueHeap is a heap of records, that whose next state is due first at the front. Each record knows its place.
type dueHeap []*record

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *dueHeap) Push(x any) {
	r := x.(*record) //nolint:forcetypeassert,errcheck // the heap holds nothing else
	r.index = len(*h)
	*h = append(*h, r)
}

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return r
}

const (
	// stateSpan is how often records are looked at that have a state to send.
	stateSpan = 50 * time.Millisecond

	// StatesPerSpan is how many states leave at once: a batch.
	StatesPerSpan = maxBatch

	// busySpan is after how long as many follow, so that requests get their turn between them.
	busySpan = 4 * time.Millisecond

	// failedSpan is how long a state waits whose Redis fails.
	failedSpan = 250 * time.Millisecond

	// statesPerTimeout is how many states leave in a node timeout.
	statesPerTimeout = 3
)

// maxNodeID is the number of node IDs: a double holds each.
const maxNodeID = kernel.Precision

// NewTracker returns a tracker that runs nothing, with a random name of its node.
func NewTracker() *Tracker {
	t := &Tracker{Node: 1 + rand.Int64N(maxNodeID-1), Now: clock.Now}
	t.Ticks.Run = t.tick
	for s := range t.Shards.All() {
		s.Records = map[limiter.QuotaName]*record{}
	}
	return t
}

// find returns the record of a key, and makes it where there is none. The shard's lock is held.
func (t *Tracker) find(p *limiter.Policy, key string, now clock.Moment) *record {
	s, name := t.Shards.Of(key), limiter.QuotaName{Policy: p.ID, Key: key}
	r := s.Records[name]
	if r == nil {
		r = &record{Policy: t.policyOf(p), Key: key, epoch: t.epochs.Add(1), index: -1}
		s.Records[name] = r
		t.Records.Add(1)
		r.due = now.Add(r.statePeriod())
		heap.Push(&s.Due, r)
		t.Ticks.Start(stateSpan)
	}
	return r
}

// policyOf returns one policy for all that count in the same states.
func (t *Tracker) policyOf(p *limiter.Policy) *limiter.Policy {
	if kept, found := t.policies.Load(p.ID); found {
		return kept.(*limiter.Policy) //nolint:forcetypeassert,errcheck // the map holds nothing else
	}
	kept, _ := t.policies.LoadOrStore(p.ID, p)
	return kept.(*limiter.Policy) //nolint:forcetypeassert,errcheck // as above
}

// drop removes a record that ended or holds nothing. The shard's lock is held.
func (t *Tracker) drop(r *record) {
	s, name := t.Shards.Of(r.Key), limiter.QuotaName{Policy: r.Policy.ID, Key: r.Key}
	if s.Records[name] == r {
		delete(s.Records, name)
		heap.Remove(&s.Due, r.index)
		r.index = -1
		t.Records.Add(-1)
		r.ended = true
	}
}

// statePeriod returns the time between two states of a record.
func (r *record) statePeriod() time.Duration {
	return r.Policy.Settings.NodeTimeout / statesPerTimeout
}

// markDirty has a state sent soon. The shard's lock is held.
func (t *Tracker) markDirty(r *record, now clock.Moment) {
	r.Dirty = true
	if now < r.due {
		t.schedule(r, now)
	}
}

// schedule sets the instant from which a record's next state is due. The shard's lock is held.
func (t *Tracker) schedule(r *record, at clock.Moment) {
	r.due = at
	if r.index >= 0 {
		heap.Fix(&t.Shards.Of(r.Key).Due, r.index)
	}
}

// tick sends the states that are due, at most [StatesPerSpan] at once, again and again while there are records.
func (t *Tracker) tick() {
	if t.Failed() {
		t.Ticks.Start(failedSpan)
		return
	}
	if left := t.SendDue(StatesPerSpan); left == 0 {
		now := clock.Now()
		t.Ticks.StartBy(now.Add(busySpan), now)
	} else if t.Records.Load() > 0 {
		t.Ticks.Start(stateSpan)
	}
}

// tellSoon has states that are due sent at once, where they had to wait for Redis.
func (t *Tracker) tellSoon() {
	if t.Records.Load() > 0 {
		now := clock.Now()
		t.Ticks.StartBy(now, now)
	}
}

// SendDue sends states that are due, up to a number, and returns how many more it could have sent. No lock is held
// while a message is handed over.
func (t *Tracker) SendDue(most int) (left int) {
	now, due := t.Now(), make([]Run, 0, 16)
	for range limiter.ShardCount {
		due = t.Shards[t.next%limiter.ShardCount].collect(t, now, most-len(due), due)
		if len(due) >= most {
			break // the next tick goes on with this shard
		}
		t.next++
	}
	for _, s := range due {
		t.Send(s)
	}
	return most - len(due)
}

// collect appends the states of the shard that are due, up to a number.
func (s *shard) collect(t *Tracker, now clock.Moment, most int, due []Run) []Run {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for most > 0 && len(s.Due) > 0 && now >= s.Due[0].due {
		r := s.Due[0]
		switch {
		case r.isIdle(now):
			t.drop(r)
		case t.refresh(r, now):
			due = append(due, r.beginState())
			most--
			t.schedule(r, now.Add(r.statePeriod()))
		case r.Dirty:
			t.schedule(r, now.Add(stateSpan)) // after the state in flight
		default:
			t.schedule(r, now.Add(r.statePeriod()))
		}
	}
	return due
}

// Begin stamps the checks that take units of running requests. The turn is that of the only check, if its request waits.
func (t *Tracker) Begin(checks []limiter.Check, turn *kernel.Turn) {
	now := t.Now()
	for i := range checks {
		c := &checks[i]
		if !c.Policy.CountsRunning || c.Peek {
			continue
		}
		s := t.Shards.Of(c.Key.String())
		s.Mu.Lock()
		m := t.find(c.Policy, c.Key.String(), now).beginTake(limiter.Units(c))
		s.Mu.Unlock()
		if turn != nil {
			c.State.Owner = &waitingTake{m, turn}
			continue
		}
		c.State.Owner = &m
	}
}

// end ends a take, and releases its units where a base has them.
func (t *Tracker) end(m Run, fate MessageFate) {
	now, s := t.Now(), t.Shards.Of(m.Record.Key)
	s.Mu.Lock()
	var next *Run
	if t.endTake(m, fate, now) {
		released := m.Record.beginRelease(m.Units, now)
		next = &released
	}
	t.tidy(m.Record, now)
	s.Mu.Unlock()
	if next != nil {
		t.Send(*next)
	}
}

// tidy drops a record that ended or holds nothing. The shard's lock is held.
func (t *Tracker) tidy(r *record, now clock.Moment) {
	if r.ended || r.isIdle(now) {
		t.drop(r)
	}
}

// release reports to Redis that units do not run any more.
func (t *Tracker) release(m Run) {
	now, r, s := t.Now(), m.Record, t.Shards.Of(m.Record.Key)
	s.Mu.Lock()
	if t.leaving.Load() {
		s.Mu.Unlock()
		return
	}
	r.running -= m.Units
	next := r.beginRelease(m.Units, now)
	t.tidy(r, now)
	s.Mu.Unlock()
	t.Send(next)
}

// releaseAll returns releases of all units that run, before the process ends. Requests that end later release nothing.
func (t *Tracker) releaseAll() (releases []Run) {
	t.leaving.Store(true)
	now := t.Now()
	for s := range t.Shards.All() {
		s.Mu.Lock()
		for _, r := range s.Records {
			if units := r.running; units > 0 {
				r.running = 0
				releases = append(releases, r.beginRelease(units, now))
				t.tidy(r, now)
			}
		}
		s.Mu.Unlock()
	}
	return releases
}

// Finish ends a release or a state. What follows one that failed waits: nothing else paces it.
func (t *Tracker) Finish(m Run, fate MessageFate) {
	now, s := t.Now(), t.Shards.Of(m.Record.Key)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	t.endMessage(m, fate, now)
	if (fate == ranNever || fate == ranUnknown) && m.Record.Dirty {
		t.schedule(m.Record, now.Add(failedSpan))
	}
	t.tidy(m.Record, now)
}
