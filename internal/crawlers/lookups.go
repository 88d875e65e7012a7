package crawlers

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// Lookups asks the DNS which names addresses have, and remembers the answers. It outlives configurations. [NewLookups] makes one.
type Lookups struct {
	LookupOptions
	ctx  context.Context //nolint:containedctx // look-ups go on when their requests have ended, and end with these look-ups
	stop context.CancelFunc

	mu      sync.Mutex
	entries entries
	queue   *queue
	near    map[netip.Prefix]struct{} // networks that have had a verified address
	running int
	rate    bucket
	refill  clock.Task // goes on once the rate allows it

	waiters  atomic.Int32
	failures atomic.Int32 // in a row
	nameless atomic.Int32 // look-ups before the first that found a name; below 0: it has
}

// LookupOptions are what look-ups go by.
type LookupOptions struct {
	Resolver Resolver
	Suffixes []string // of all crawlers

	// Count is called for each look-up, and for each that there was no room for. Nil: none is counted.
	Count func(LookupResult)

	// OnNoNames is called once, if the resolver has found no name of the first [namelessLookups] addresses. Nil: nothing is called.
	OnNoNames func()

	// Now and After are the clock's in tests. Default: that of the process.
	Now   func() clock.Moment
	After func(d time.Duration, f func()) clock.Timer
}

// LookupResult says what became of a look-up.
type LookupResult string

// The results of look-ups.
const (
	FoundVerified LookupResult = "verified" // the address has a crawler's name
	FoundForged   LookupResult = "forged"   // it certainly has none
	Failed        LookupResult = "failed"   // the resolver could not say
	Refused       LookupResult = "refused"  // there was no room for the look-up
)

// LookupResults lists the results of look-ups.
func LookupResults() []LookupResult {
	return []LookupResult{FoundVerified, FoundForged, Failed, Refused}
}

const (
	mostRunning = 64
	mostWaiters = 1024
	mostNear    = 4096 // networks

	// A request does not wait behind so many look-ups, nor after so many failures in a row: no answer would come in time.
	mostAhead    = 50
	mostFailures = 8

	// namelessLookups is after how many look-ups without a name the resolver is supposed to know no names of the internet.
	namelessLookups = 20
)

// NewLookups returns look-ups, which end with [Lookups.Close].
func NewLookups(o LookupOptions) *Lookups {
	if o.Now == nil {
		o.Now = clock.Now
	}
	if o.Count == nil {
		o.Count = func(LookupResult) {}
	}
	l := &Lookups{LookupOptions: o, entries: newEntries(), queue: newQueue(), near: map[netip.Prefix]struct{}{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.rate = bucket{units: burst, filled: o.Now()}
	l.refill.After, l.refill.Life, l.refill.Run = o.After, l.ctx, l.dispatchLocked
	return l
}

// Close ends the look-ups under way. Nothing is asked any more.
func (l *Lookups) Close() {
	l.stop()
	l.refill.Stop()
}

// Names returns the confirmed names of an address, as far as they are known, and asks for them where that is due. It waits for
// the answer at most so long, and only where one can come by then.
func (l *Lookups) Names(ctx context.Context, a netip.Addr, wait time.Duration) ([]string, Status) {
	now := l.Now()
	l.mu.Lock()
	e := l.entries.of(a)
	if e != nil && now < e.fresh {
		defer l.mu.Unlock()
		return e.names, e.status
	}
	e = l.entries.begin(a, e, now)
	ahead := l.queue.ahead(l.rankOf(a))
	refused := e.pending == nil && !l.enqueue(a, e, now)
	names, status, pending := e.names, e.status, e.pending
	l.mu.Unlock()
	if refused {
		l.Count(Refused)
	}
	if refused || status != Unknown || !l.mayWait(ahead, wait) { // an answer serves until the next one is there
		return names, status
	}
	defer l.waiters.Add(-1)
	return l.await(ctx, e, pending, wait)
}

// mayWait reports whether a request may wait, which then is one of those that do.
func (l *Lookups) mayWait(ahead int, wait time.Duration) bool {
	if wait <= 0 || ahead > mostAhead || l.failures.Load() >= mostFailures {
		return false
	}
	if l.waiters.Add(1) > mostWaiters {
		l.waiters.Add(-1)
		return false
	}
	return true
}

// await waits for the answer of a look-up.
func (l *Lookups) await(ctx context.Context, e *entry, pending <-chan struct{}, wait time.Duration) ([]string, Status) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-pending:
		l.mu.Lock()
		defer l.mu.Unlock()
		return e.names, e.status
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, Unknown
}

// rankOf returns which lines an address is served with.
func (l *Lookups) rankOf(a netip.Addr) rank {
	if _, isNear := l.near[nearOf(a)]; isNear {
		return known
	}
	return stranger
}

// enqueue has an address looked up, and reports whether there is room.
func (l *Lookups) enqueue(a netip.Addr, e *entry, now clock.Moment) bool {
	key := lineKey{networkOf(a), stranger}
	if l.rankOf(a) == known {
		key = lineKey{nearOf(a), known}
	}
	dropped, ok := netip.Addr{}, false
	if l.ctx.Err() == nil {
		dropped, ok = l.queue.push(a, key)
	}
	if !ok {
		l.entries.forgetUnless(a, e)
		return false
	}
	e.pending = make(chan struct{})
	if dropped.IsValid() {
		l.entries.abandon(dropped)
		l.Count(Refused)
	}
	l.dispatch(now)
	return true
}

// dispatchLocked goes on once the rate allows it.
func (l *Lookups) dispatchLocked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dispatch(l.Now())
}

// dispatch begins look-ups, as far as their bounds allow it. The lock is held.
func (l *Lookups) dispatch(now clock.Moment) {
	for l.running < mostRunning && l.ctx.Err() == nil {
		next := l.queue.next()
		if next == nil {
			return
		}
		if wait := l.rate.take(now); wait > 0 {
			l.refill.StartBy(now.Add(wait), now)
			return
		}
		l.running++
		go l.lookUp(l.queue.begin(next), next)
	}
}

// lookUp asks for an address, and begins the next one.
func (l *Lookups) lookUp(a netip.Addr, of *line) {
	got := inquire(l.ctx, l.Resolver, a, l.Suffixes)
	l.judge(&got)
	now := l.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries.settle(a, &got, now)
	if got.status == Verified {
		l.noteNear(a)
	}
	l.running--
	l.queue.end(of)
	l.dispatch(now)
}

// judge counts an answer. That an address has no name is certain only once the resolver has found a name of any other one: a
// resolver of a closed network says so of all.
func (l *Lookups) judge(got *answer) {
	outcome := Failed
	switch got.status {
	case Verified:
		outcome = FoundVerified
	case Forged:
		outcome = FoundForged
	}
	if got.status != Unknown {
		l.failures.Store(0)
	} else if l.failures.Load() < mostFailures {
		l.failures.Add(1)
	}
	switch {
	case got.hasNames:
		l.nameless.Store(-mostRunning)
	case got.status == Forged && l.nameless.Load() >= 0:
		got.status, outcome = Unknown, Failed
		if l.nameless.Load() < namelessLookups && l.nameless.Add(1) == namelessLookups && l.OnNoNames != nil {
			l.OnNoNames()
		}
	}
	l.Count(outcome)
}

// noteNear notes the network of a verified address; any other one goes where there are too many.
func (l *Lookups) noteNear(a netip.Addr) {
	for network := range l.near {
		if len(l.near) < mostNear {
			break
		}
		delete(l.near, network)
	}
	l.near[nearOf(a)] = struct{}{}
}

// Trace asks the DNS about an address at once, beside all bounds and without a memory of the answer, and returns each step.
func (l *Lookups) Trace(ctx context.Context, a netip.Addr) (names []string, status Status, steps []Step) {
	got := inquire(ctx, l.Resolver, a, l.Suffixes)
	if got.status == Forged && !got.hasNames && l.nameless.Load() >= 0 {
		got.status = Unknown
	}
	return got.names, got.status, got.steps
}

// State is what look-ups are at.
type State struct {
	Verified, Others int  // addresses that are remembered
	Queued, Running  int  // addresses that wait for their look-up, and look-ups under way
	Failing          bool // the last look-ups all failed, so that no request waits
	HasFoundNames    bool // any address had a name since the start
}

// State returns what the look-ups are at.
func (l *Lookups) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return State{
		len(l.entries.verified), len(l.entries.others), l.queue.Len(), l.running,
		l.failures.Load() >= mostFailures, l.nameless.Load() < 0,
	}
}
