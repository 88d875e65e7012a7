package crawlers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// world is a resolver and a clock of a test.
type world struct {
	mu     sync.Mutex
	names  map[string]string // of addresses; "" fails, and others do not exist
	hold   chan struct{}     // nil: answers come at once
	asked  map[string]int    // look-ups by address
	now    atomic.Int64
	timers []timer

	running, most atomic.Int64
	begun         atomic.Int64
}

type timer struct {
	at   int64
	fire func()
}

func newWorld(names map[string]string) *world {
	w := &world{names: names, asked: map[string]int{}}
	w.now.Store(int64(time.Hour))
	return w
}

func (w *world) lookups(t *testing.T, change func(*LookupOptions)) *Lookups {
	t.Helper()
	o := LookupOptions{
		Resolver: w, Suffixes: []string{".googlebot.com"}, Now: func() clock.Moment { return clock.Moment(w.now.Load()) },
		After: func(d time.Duration, f func()) clock.Timer { return newFakeTimer(w, d, f) },
	}
	if change != nil {
		change(&o)
	}
	l := NewLookups(o)
	t.Cleanup(l.Close)
	return l
}

type fakeTimer struct {
	w    *world
	fire func()
}

func newFakeTimer(w *world, d time.Duration, fire func()) *fakeTimer {
	f := &fakeTimer{w, fire}
	f.Reset(d)
	return f
}

func (f *fakeTimer) Reset(d time.Duration) bool {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.timers = append(f.w.timers, timer{f.w.now.Load() + int64(d), f.fire})
	return true
}

func (*fakeTimer) Stop() bool { return true }

// advance moves the clock, and fires the timers that are due.
func (w *world) advance(d time.Duration) {
	now := w.now.Add(int64(d))
	w.mu.Lock()
	var due []func()
	w.timers = slices.DeleteFunc(w.timers, func(t timer) bool {
		if t.at <= now {
			due = append(due, t.fire)
		}
		return t.at <= now
	})
	w.mu.Unlock()
	for _, fire := range due {
		fire()
	}
}

func (w *world) LookupAddr(ctx context.Context, address string) ([]string, error) {
	w.begun.Add(1)
	if running := w.running.Add(1); running > w.most.Load() {
		w.most.Store(running)
	}
	defer w.running.Add(-1)
	w.mu.Lock()
	w.asked[address]++
	name, found := w.names[address]
	hold := w.hold
	w.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	switch {
	case !found:
		return nil, &net.DNSError{IsNotFound: true}
	case name == "":
		return nil, errors.New("server misbehaving")
	}
	return []string{name + "."}, nil
}

func (w *world) LookupNetIP(_ context.Context, _, host string) (addresses []netip.Addr, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for address, name := range w.names {
		if name+"." == host {
			addresses = append(addresses, netip.MustParseAddr(address))
		}
	}
	return addresses, nil
}

// set changes the name of an address.
func (w *world) set(address, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[address] = name
}

func (w *world) forget(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.names, address)
}

func (w *world) timesAsked(address string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[address]
}

// idle waits until no look-up is queued or under way.
func idle(t *testing.T, l *Lookups) {
	t.Helper()
	assert.WaitFor(t, "the look-ups end", func() error {
		if s := l.State(); s.Queued+s.Running > 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// ask asks for an address without a wait, and again once the look-up has ended.
func status(t *testing.T, l *Lookups, address string) Status {
	t.Helper()
	l.Names(context.Background(), netip.MustParseAddr(address), 0)
	idle(t, l)
	_, got := l.Names(context.Background(), netip.MustParseAddr(address), 0)
	idle(t, l)
	return got
}

const crawler, liar, broken = "66.249.66.1", "203.0.113.9", "198.51.100.7"

func testWorld() *world {
	return newWorld(map[string]string{crawler: "crawl-1.googlebot.com", liar: "dsl.isp.example", broken: ""})
}

// TestLookups_times holds how often an address is asked for, however often it comes.
func TestLookups_times(t *testing.T) {
	w := testWorld()
	l := w.lookups(t, nil)
	come := func(address string, want Status, asked int, when string) {
		t.Helper()
		for range 3 {
			assert.Equal(t, status(t, l, address), want, "%s %s", address, when)
		}
		assert.Equal(t, w.timesAsked(address), asked, "look-ups of %s %s", address, when)
	}
	come(crawler, Verified, 1, "at first")
	come(liar, Forged, 1, "at first")
	w.advance(59 * time.Minute)
	come(liar, Forged, 1, "within the hour")
	w.advance(2 * time.Minute)
	come(liar, Forged, 2, "after an hour")
	come(crawler, Verified, 1, "after an hour")
	w.advance(24 * time.Hour)
	come(crawler, Verified, 2, "after a day")
}

// TestLookups_pauses doubles the pause between two look-ups of an address that the resolver cannot say anything of.
func TestLookups_pauses(t *testing.T) {
	w := testWorld()
	l := w.lookups(t, nil)
	assert.Equal(t, status(t, l, broken), Unknown, "at first")
	pause := 30 * time.Second
	for asked := 1; asked < 12; asked++ {
		w.advance(pause - time.Second)
		assert.Equal(t, status(t, l, broken), Unknown, "before the end of a pause")
		assert.Equal(t, w.timesAsked(broken), asked, "look-ups before a pause of %v has ended", pause)
		w.advance(time.Second)
		assert.Equal(t, status(t, l, broken), Unknown, "after a pause")
		assert.Equal(t, w.timesAsked(broken), asked+1, "look-ups after a pause of %v", pause)
		pause = min(2*pause, time.Hour)
	}
}

// TestLookups_resolver_down keeps a verified address for a day beyond its time, and asks once each 30 seconds.
func TestLookups_resolver_down(t *testing.T) {
	w := testWorld()
	l := w.lookups(t, nil)
	assert.Equal(t, status(t, l, crawler), Verified, "before")
	w.set(crawler, "")
	w.advance(24*time.Hour + time.Second)
	assert.Equal(t, status(t, l, crawler), Verified, "a day later")
	assert.Equal(t, w.timesAsked(crawler), 2, "look-ups a day later")
	w.advance(29 * time.Second)
	assert.Equal(t, status(t, l, crawler), Verified, "29 seconds after that")
	assert.Equal(t, w.timesAsked(crawler), 2, "look-ups 29 seconds after that")
	w.advance(time.Second)
	assert.Equal(t, status(t, l, crawler), Verified, "30 seconds after that")
	assert.Equal(t, w.timesAsked(crawler), 3, "look-ups 30 seconds after that")
	w.advance(25 * time.Hour)
	assert.Equal(t, status(t, l, crawler), Unknown, "two days later")
	w.set(crawler, "crawl-1.googlebot.com")
	w.advance(time.Hour)
	assert.Equal(t, status(t, l, crawler), Verified, "after the resolver's return")
}

// TestLookups_changed makes an address forged by the first answer that says so.
func TestLookups_changed(t *testing.T) {
	w := testWorld()
	l := w.lookups(t, nil)
	assert.Equal(t, status(t, l, crawler), Verified, "before")
	w.forget(crawler)
	w.advance(24 * time.Hour)
	assert.Equal(t, status(t, l, crawler), Forged, "after the change")
	assert.Equal(t, l.State().Verified, 0, "addresses that are verified")
}

// TestLookups_unused asks anew, rather than go by an answer of long ago.
func TestLookups_unused(t *testing.T) {
	w := testWorld()
	l := w.lookups(t, nil)
	assert.Equal(t, status(t, l, crawler), Verified, "before")
	w.hold = make(chan struct{})
	w.advance(48 * time.Hour)
	names, got := l.Names(context.Background(), googlebot, 0)
	assert.Equal(t, got, Unknown, "while the DNS is asked after two days")
	assert.Equal(t, len(names), 0, "the names")
	close(w.hold)
	idle(t, l)
}

// TestLookups_lying_resolver makes nothing forged by a resolver that knows no names.
func TestLookups_lying_resolver(t *testing.T) {
	w := newWorld(map[string]string{})
	var told atomic.Int32
	l := w.lookups(t, func(o *LookupOptions) { o.OnNoNames = func() { told.Add(1) } })
	for i := range 25 {
		w.advance(time.Second)
		assert.Equal(t, status(t, l, fmt.Sprintf("203.0.113.%d", i)), Unknown, "an address that has no name")
		assert.Equal(t, told.Load() == 1, i >= namelessLookups-1, "whether a warning came after %d look-ups", i+1)
	}
	w.set(liar, "dsl.isp.example")
	w.advance(time.Minute)
	assert.Equal(t, status(t, l, liar), Forged, "an address with a foreign name")
	assert.Equal(t, status(t, l, "203.0.113.200"), Forged, "an address without a name, after another one had one")
}

// TestLookups_wait holds when a request waits.
func TestLookups_wait(t *testing.T) {
	ask := func(l *Lookups, ctx context.Context, a string, wait time.Duration) Status {
		_, got := l.Names(ctx, netip.MustParseAddr(a), wait)
		return got
	}
	t.Run("until the answer", func(t *testing.T) {
		l := testWorld().lookups(t, nil)
		assert.Equal(t, ask(l, context.Background(), crawler, time.Minute), Verified, "the first request")
	})
	t.Run("until its end", func(t *testing.T) {
		w := testWorld()
		w.hold = make(chan struct{})
		l := w.lookups(t, nil)
		assert.Equal(t, ask(l, context.Background(), crawler, time.Millisecond), Unknown, "the first request")
		close(w.hold)
		idle(t, l)
		assert.Equal(t, ask(l, context.Background(), crawler, 0), Verified, "the next one")
	})
	t.Run("until the client leaves", func(t *testing.T) {
		w := testWorld()
		w.hold = make(chan struct{})
		l := w.lookups(t, nil)
		ctx, leave := context.WithCancel(context.Background())
		leave()
		assert.Equal(t, ask(l, ctx, crawler, time.Hour), Unknown, "a request whose client has left")
		close(w.hold)
		idle(t, l)
		assert.Equal(t, ask(l, context.Background(), crawler, 0), Verified, "the next one")
	})
	t.Run("not after failures", func(t *testing.T) {
		w := testWorld()
		l := w.lookups(t, nil)
		for i := range mostFailures {
			address := fmt.Sprintf("198.51.100.%d", i+100)
			w.set(address, "")
			assert.Equal(t, ask(l, context.Background(), address, time.Minute), Unknown, "a failure")
		}
		assert.Equal(t, l.State().Failing, true, "whether the resolver fails")
		w.hold = make(chan struct{})
		assert.Equal(t, ask(l, context.Background(), crawler, time.Hour), Unknown, "a request that does not wait")
		close(w.hold)
		idle(t, l)
		assert.Equal(t, l.State().Failing, false, "whether the resolver still fails")
	})
	t.Run("not behind many", func(t *testing.T) {
		w := testWorld()
		w.hold = make(chan struct{})
		l := w.lookups(t, nil)
		for i := range mostRunning + mostAhead + 1 {
			ask(l, context.Background(), fmt.Sprintf("203.0.%d.1", i), 0)
		}
		assert.Equal(t, ask(l, context.Background(), crawler, time.Hour), Unknown, "a request behind 51 look-ups")
		close(w.hold)
	})
	t.Run("at most so many", func(t *testing.T) {
		w := testWorld()
		w.hold = make(chan struct{})
		l := w.lookups(t, nil)
		var waiting sync.WaitGroup
		for range mostWaiters {
			waiting.Go(func() { ask(l, context.Background(), crawler, time.Hour) })
		}
		assert.WaitFor(t, "all wait", func() error {
			if n := l.waiters.Load(); n < mostWaiters {
				return fmt.Errorf("%d wait", n)
			}
			return nil
		})
		assert.Equal(t, ask(l, context.Background(), crawler, time.Hour), Unknown, "one more")
		close(w.hold)
		waiting.Wait()
		assert.Equal(t, w.timesAsked(crawler), 1, "look-ups")
	})
}

// TestLookups_rate bounds look-ups by their rate and at once.
func TestLookups_rate(t *testing.T) {
	w := testWorld()
	l := w.lookups(t, nil)
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{100, byte(i >> 8), byte(i), 1}) }
	for i := range 1000 {
		l.Names(context.Background(), address(i), 0)
	}
	finish := func() {
		for l.State().Running > 0 {
			runtime.Gosched()
		}
	}
	finish()
	assert.Equal(t, w.begun.Load(), burst, "look-ups at once")
	for second := range int64(4) {
		for range 200 {
			w.advance(5 * time.Millisecond)
			finish()
		}
		begun, most := w.begun.Load(), burst+rate*(second+1)
		assert.ErrorIf(t, begun > most || begun < most-rate/20, "%d look-ups after %d seconds, want %d", begun, second+1, most)
	}
	assert.ErrorIf(t, w.most.Load() > mostRunning, "%d look-ups were under way at once", w.most.Load())
}

// TestLookups_close ends what is under way.
func TestLookups_close(t *testing.T) {
	w := testWorld()
	w.hold = make(chan struct{})
	l := w.lookups(t, nil)
	l.Names(context.Background(), googlebot, 0)
	l.Close()
	idle(t, l)
	_, got := l.Names(context.Background(), netip.MustParseAddr(liar), time.Hour)
	assert.Equal(t, got, Unknown, "a request after the end")
	assert.Equal(t, w.timesAsked(liar), 0, "look-ups after the end")
}
