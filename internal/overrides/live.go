package overrides

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// Live is the overrides that apply now. It is safe for concurrent use.
type Live struct {
	store   *limiter.Redis // nil: they live in this process
	keys    redisKeys
	hashed  bool
	hooks   Hooks
	applied atomic.Pointer[snapshot] // nil: there is none
	clock   atomic.Pointer[clockSample]

	turn     chan struct{}           // holds one token, for changes of what follows
	held     atomic.Pointer[holding] // never nil
	lookedAt time.Time               // of the last look at Redis's clock and the number of entries

	started atomic.Bool
	life    context.Context //nolint:containedctx // ends with the store
	end     context.CancelFunc
}

// holding is all that is known of one version. It is never changed.
type holding struct {
	version

	partial bool              // Redis has lost entries of this version
	stored  map[string]string // fields and values as they are in Redis
	entries map[string]*Entry // of those that can be read, by field
}

// Hooks are called by a [Live]. They must not block, and may be nil.
type Hooks struct {
	// OnChange is called after overrides of a policy have changed, with the keys of the clients. Without
	// keys it may be any.
	OnChange func(policy string, keys ...limiter.EncodedKey)

	// OnUnread is called for every failed try to read the overrides of Redis, and with nil for the next one
	// that succeeds.
	OnUnread func(err error)

	// OnUnreadable is called for an override in Redis of another form, which is left out.
	OnUnreadable func(err error)
}

// clockSample is a reading of Redis's clock.
type clockSample struct{ redis, at time.Time }

// NewLocal returns overrides that live in this process.
func NewLocal(hooks Hooks) *Live { return newLive(hooks) }

// NewShared returns the overrides that lie in the Redis of a store, none before [Live.Start]. Those of
// another Live on the same Redis, which may be nil, apply until Redis has been read.
func NewShared(store *limiter.Redis, format limiter.KeyFormat, earlier *Live, hooks Hooks) *Live {
	l := newLive(hooks)
	l.store, l.keys, l.hashed = store, newRedisKeys(format), format.Secret != ""
	if earlier != nil {
		l.clock.Store(earlier.clock.Load())
		l.apply(*earlier.held.Load())
	}
	return l
}

func newLive(hooks Hooks) *Live {
	l := &Live{hooks: hooks, turn: make(chan struct{}, 1)}
	l.held.Store(&holding{})
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

// take waits for the turn to change the overrides. Another change, or a poll, may wait for Redis meanwhile.
func (l *Live) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &limiter.UndecidedError{Kind: "timeout", Err: errors.New("redis does not answer")}
	}
}

func (l *Live) give() { <-l.turn }

// Now returns the time by Redis's clock, without Redis that of this machine. Until Redis's clock was read
// it is that of this machine too.
func (l *Live) Now() time.Time {
	sample := l.clock.Load()
	if sample == nil {
		return time.Now()
	}
	return sample.redis.Add(time.Since(sample.at))
}

// learnTime takes a reading of Redis's clock.
func (l *Live) learnTime(redis time.Time) {
	l.clock.Store(&clockSample{redis: redis, at: time.Now()})
	l.lookedAt = time.Now()
}

// Len counts the overrides that have not ended.
func (l *Live) Len() int {
	s := l.applied.Load()
	if s == nil {
		return 0
	}
	count := 0
	for _, p := range *s {
		if p.all != nil && !l.hasEnded(p.all) {
			count++
		}
		for _, e := range p.byClient {
			if !l.hasEnded(e) {
				count++
			}
		}
	}
	return count
}

// OfPolicy returns the override of all clients of a policy, nil where there is none, and the number of
// those of one client.
func (l *Live) OfPolicy(policy string) (all *Entry, clients int) {
	p := l.current(policy)
	if p == nil {
		return nil, 0
	}
	for _, e := range p.byClient {
		if !l.hasEnded(e) {
			clients++
		}
	}
	if p.all != nil && !l.hasEnded(p.all) {
		all = p.all
	}
	return all, clients
}

// list returns the overrides that have not ended.
func (l *Live) list() (entries []*Entry) {
	s := l.applied.Load()
	if s == nil {
		return nil
	}
	for _, p := range *s {
		if p.all != nil && !l.hasEnded(p.all) {
			entries = append(entries, p.all)
		}
		for _, e := range p.byClient {
			if !l.hasEnded(e) {
				entries = append(entries, e)
			}
		}
	}
	return entries
}

// apply replaces the overrides by others, and reports the changes. Entries that are the same keep what was
// derived of them. The caller has the turn.
func (l *Live) apply(h holding) {
	before := l.held.Load()
	h.entries = make(map[string]*Entry, len(h.stored))
	changed := map[string][]string{} // clients by policy
	for field, value := range h.stored {
		if e := before.entries[field]; e != nil && before.stored[field] == value {
			h.entries[field] = e
			continue
		}
		e, err := parseEntry(field, value)
		switch {
		case err == nil:
			h.entries[field] = e
			noteChange(changed, field)
		case before.stored[field] != value && l.hooks.OnUnreadable != nil:
			l.hooks.OnUnreadable(err)
		}
	}
	for field := range before.entries {
		if h.entries[field] == nil {
			noteChange(changed, field)
		}
	}
	l.held.Store(&h)
	if s := newSnapshot(h.entries); s == nil {
		l.applied.Store(nil)
	} else {
		l.applied.Store(&s)
	}
	l.reportChanges(changed)
}

func noteChange(changed map[string][]string, field string) {
	if t, ok := parseField(field); ok {
		changed[t.Policy] = append(changed[t.Policy], t.Client)
	}
}

// fewChanges is how many clients of a policy are reported one by one.
const fewChanges = 64

// reportChanges calls the hook. Clients are not known by their keys where these are hashed.
func (l *Live) reportChanges(changed map[string][]string) {
	if l.hooks.OnChange == nil {
		return
	}
	for policy, clients := range changed {
		var keys []limiter.EncodedKey
		for _, client := range clients {
			if l.hashed || client == "" || len(clients) > fewChanges {
				keys = nil
				break
			}
			keys = append(keys, Target{policy, client}.Key())
		}
		l.hooks.OnChange(policy, keys...)
	}
}
