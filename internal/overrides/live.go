package overrides

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// Live is the overrides that apply now. It is safe for concurrent use.
type Live struct {
	// Applied is nil while there is no override, so that requests need not search for one.
	Applied atomic.Pointer[snapshot]

	store     *redis.Store // nil: they live in this process
	keys      redisKeys
	hashed    bool
	hooks     Hooks
	showing   sync.Mutex        // for changes of what applies
	own       map[string]*Entry // by field: those that apply on this node alone; it is replaced, never changed
	calmSince clock.Moment      // Redis has decided and taken overrides since then; 0: it does not. For the end of own
	earlier   *Live             // whose own are inherited at the start
	clock     atomic.Pointer[clockSample]

	turn     chan struct{}           // holds one token, for changes of what follows
	held     atomic.Pointer[holding] // never nil
	lookedAt time.Time               // of the last look at Redis's clock and the number of entries
	version  string                  // the version as it was read last
	news     atomic.Bool             // it has another text since OnVersion was last called

	started atomic.Bool
	polls   clock.Task
	failed  atomic.Bool     // the last poll
	marker  marker          // in Redis, as polls know it
	life    context.Context //nolint:containedctx // ends with the store
	end     context.CancelFunc
}

// holding is what this process knows of one version of the overrides. A holding is never changed.
type holding struct {
	version

	stored  map[string]string // never nil: fields and values as they are in Redis
	entries map[string]*Entry // of those that can be read, by field
}

// Hooks are called by a [Live]. They must not block unless they say so, and may be nil.
type Hooks struct {
	// OnChange is called after overrides of a policy have changed, with the keys of the clients. Without keys any client's
	// override may have changed. The name is empty where blocks for all policies have changed.
	OnChange func(policy string, keys ...limiter.EncodedKey)

	// OnUnread is called for every failed try to read the overrides of Redis, and with nil for the next one
	// that succeeds.
	OnUnread func(err error)

	// OnFirstAnswer is called when Redis first answers, with Redis's version; empty: unknown.
	OnFirstAnswer func(version string)

	// OnDataLost is called when Redis has lost its data, although it answered throughout.
	OnDataLost func()

	// OnUnreadable is called for an override in Redis that this version cannot read and leaves out.
	OnUnreadable func(err error)

	// OnVersion is called by a poll after the text of the version in Redis has changed, be it only by zeros that do not change
	// the version. After an error it is called again. It may block, and the polls with it.
	OnVersion func(ctx context.Context) error

	// OnNodeOnlyEnd is called when overrides that applied on this node alone have ended, with their number.
	OnNodeOnlyEnd func(ended int)
}

// NewLocal returns overrides that are kept in this process.
func NewLocal(hooks Hooks) *Live {
	l := &Live{hooks: hooks, turn: make(chan struct{}, 1)}
	l.held.Store(&holding{stored: map[string]string{}})
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

// NewShared returns the overrides that are kept in the Redis of a store. [Live.Start] begins to read them. Until Redis has
// been read, the overrides of an earlier Live on the same Redis apply; earlier may be nil.
func NewShared(store *redis.Store, format limiter.KeyFormat, earlier *Live, hooks Hooks) *Live {
	l := NewLocal(hooks)
	l.store, l.keys, l.hashed = store, newRedisKeys(format), format.Secret != ""
	l.marker = marker{store: store, key: l.keys.marker, onFirstAnswer: hooks.OnFirstAnswer, onDataLost: hooks.OnDataLost}
	if earlier != nil {
		l.clock.Store(earlier.clock.Load())
		l.apply(*earlier.held.Load())
		l.inherit(earlier)
		l.earlier = earlier
	}
	return l
}

// lock waits for the turn to change the overrides. Another change, or a poll, may wait for Redis meanwhile.
func (l *Live) lock(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &limiter.UndecidedError{Kind: "timeout", Err: errors.New("redis does not answer")}
	}
}

func (l *Live) unlock() { <-l.turn }

// Stale reports whether the last poll has failed, so that the overrides may differ from those in Redis.
func (l *Live) Stale() bool { return l.failed.Load() }

// Len counts the overrides that have not ended.
func (l *Live) Len() int { return len(l.list()) }

// OfPolicy returns the override of all clients of a policy, nil if there is none, and how many overrides of single clients
// there are.
func (l *Live) OfPolicy(policy string) (all *Entry, clients int) {
	p := l.current(policy)
	if p == nil {
		return nil, 0
	}
	for _, e := range p.byClient {
		if l.applies(e) {
			clients++
		}
	}
	if l.applies(p.all) {
		all = p.all
	}
	return all, clients
}

// list returns the overrides that have not ended.
func (l *Live) list() (entries []*Entry) {
	s := l.Applied.Load()
	if s == nil {
		return nil
	}
	for _, e := range s.entries {
		if l.applies(e) {
			entries = append(entries, e)
		}
	}
	return entries
}

// clockSample is a reading of Redis's clock.
type clockSample struct{ redis, at time.Time }

// Now returns the time by Redis's clock; without Redis, and until Redis's clock was read, the time by this machine's.
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

// applies reports whether there is an override and it has not ended. The clock is read only if the override has an end.
func (l *Live) applies(e *Entry) bool { return e != nil && (e.Until.IsZero() || !e.ended(l.Now())) }

// clientOf returns the text that stands for a client's key.
func (l *Live) clientOf(key limiter.EncodedKey) string {
	if l.hashed {
		return string(l.store.AppendClient(nil, key))
	}
	if text := key.String(); text != "" {
		return text
	}
	return emptyClient
}

// Decides returns why the Redis that keeps the overrides does not decide requests; nil: it does, or there is none.
func (l *Live) Decides(ctx context.Context) error {
	if l.store == nil {
		return nil
	}
	return l.store.ProbeName(ctx, l.keys.version)
}
