package redis

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// gate is a batcher whose batches wait until the test opens it.
type gate struct {
	batcher
	started chan int // the size of each batch as it starts
	release chan struct{}
}

func newGate() *gate {
	g := &gate{started: make(chan int, 1000), release: make(chan struct{}, 1000)}
	g.Senders.Usual = time.Hour // no batch counts as stalled here
	g.Send = func(_ context.Context, calls []*Call) bool {
		g.started <- len(calls)
		<-g.release
		return false
	}
	return g
}

// request enqueues a request in the background; done is called with do's error.
func (g *gate) request(ctx context.Context, timeout time.Duration, done func(error)) {
	c := NewCall(OpTake, []limiter.Check{{Key: limiter.EncodeKey("k")}})
	go func() {
		err := g.Do(ctx, c, timeout)
		if err == nil {
			c.Recycle()
		}
		done(err)
	}()
}

// ask requests in the background, as one of a group.
func (g *gate) ask(group *sync.WaitGroup) {
	group.Add(1)
	g.request(context.Background(), time.Minute, func(error) { group.Done() })
}

// awaitBatch waits for the next batch.
func (g *gate) awaitBatch(t *testing.T) {
	t.Helper()
	select {
	case <-g.started:
	case <-time.After(time.Minute):
		t.Fatal("no batch leaves")
	}
}

// await waits until a condition holds, which is looked at under the lock.
func (b *batcher) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	assert.Retry(t, what, func() (again bool, seen any) {
		b.Mu.Lock()
		defer b.Mu.Unlock()
		return !holds(), fmt.Sprintf("%d calls wait, %+v, watched %v, %+v", len(b.Waiting), b.Senders, b.stalls.IsSet(), b.Unsettled)
	})
}

func TestBatcher_waiting_calls(t *testing.T) {
	g := newGate()
	var group sync.WaitGroup
	g.ask(&group)
	n := <-g.started
	assert.ErrorIf(t, n != 1, "a lone request went with %d", n)
	for range maxBatch + 10 {
		g.ask(&group)
	}
	g.await(t, "the queue is filled", func() bool { return len(g.Waiting) == maxBatch+10 })
	g.release <- struct{}{}
	n = <-g.started
	assert.ErrorIf(t, n != maxBatch, "the next batch has %d requests, want %d", n, maxBatch)
	for range 10 {
		g.release <- struct{}{}
	}
	group.Wait()
}

func TestBatcher_abandoned_calls(t *testing.T) {
	before := runtime.NumGoroutine()
	g := newGate()
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error, 100)
	g.request(context.Background(), time.Minute, func(err error) { errs <- err })
	<-g.started
	for range 20 {
		g.request(ctx, time.Minute, func(err error) { errs <- err })
	}
	for range 20 {
		g.request(context.Background(), time.Millisecond, func(err error) { errs <- err })
	}
	assert.Retry(t, "the requests time out", func() (again bool, seen any) {
		return len(errs) < 20, fmt.Sprintf("%d of them", len(errs))
	})
	cancel()
	kinds := map[error]int{}
	for range 40 {
		kinds[<-errs]++
	}
	assert.ErrorIf(t, kinds[context.Canceled] != 20 || kinds[limiter.ErrUnsent] != 20, "errors %v", kinds)
	close(g.release)
	assert.Must(t, <-errs)
	assert.Retry(t, "all goroutines are gone", func() (again bool, seen any) {
		n := runtime.NumGoroutine()
		return n > before, fmt.Sprintf("%d goroutines, %d before", n, before)
	})
	assert.ErrorIf(t, len(g.started) != 0, "%d requests were sent after their clients had left", len(g.started))
}

func TestBatcher_full_queue(t *testing.T) {
	g := newGate()
	var group sync.WaitGroup
	g.ask(&group)
	<-g.started
	for range MaxQueue {
		assert.Must(t, g.enqueue(NewCall(OpTake, nil)))
	}
	err := g.enqueue(NewCall(OpTake, nil))
	assert.ErrorIf(t, limiter.Kind(err) != "overload", "error %v", err)
	close(g.release)
	group.Wait()
}

func TestBatcher_stalled_batches(t *testing.T) {
	g := newGate()
	g.Senders.Usual = 0
	var group sync.WaitGroup
	for range dial.MaxOpenSenders {
		g.ask(&group)
		<-g.started // none of the earlier ones has come back
	}
	close(g.release)
	group.Wait()
	l := &g.Senders
	g.await(t, "surplus senders end", func() bool { return l.Open == 0 && l.stalled == 0 && len(l.inflights) == 0 && !g.stalls.IsSet() })
}

func TestBatcher_lost_answer(t *testing.T) {
	var b batcher
	var alone []bool // whether a batch was sent within a request's own timeout
	b.ready = 3
	b.Send = func(ctx context.Context, _ []*Call) bool {
		_, bounded := ctx.Deadline()
		alone = append(alone, bounded)
		return false
	}
	for range 2 {
		c := NewCall(OpTake, []limiter.Check{{Key: limiter.EncodeKey("k")}})
		assert.Must(t, b.Do(context.Background(), c, time.Minute))
		c.Recycle()
	}
	want := []bool{true, false}
	assert.ErrorIf(t, !slices.Equal(alone, want), "sent within a request's own timeout: %v, want %v", alone, want)
}

// TestBatcher_crowd has a batch of several calls. The next request leaves by a sender, which takes those along
// that come meanwhile. As none does, the one after it sends its call itself again.
func TestBatcher_crowd(t *testing.T) {
	type batch struct {
		size    int
		bounded bool // sent within a request's own timeout
	}
	var sent []batch
	first, entered := make(chan struct{}), make(chan struct{})
	b := batcher{ready: 1}
	b.Senders.Usual = time.Hour // no batch counts as stalled here
	b.Send = func(ctx context.Context, calls []*Call) bool {
		_, bounded := ctx.Deadline()
		if sent = append(sent, batch{len(calls), bounded}); len(sent) == 1 {
			close(entered)
			<-first
		}
		return true
	}
	ask := func() {
		c := NewCall(OpTake, []limiter.Check{{Key: limiter.EncodeKey("k")}})
		assert.Must(t, b.Do(context.Background(), c, time.Minute))
		c.Recycle()
	}
	var crowd sync.WaitGroup
	crowd.Go(ask)
	<-entered
	for range 5 {
		crowd.Go(ask)
	}
	b.await(t, "five requests wait", func() bool { return len(b.Waiting) == 5 })
	close(first)
	crowd.Wait()
	for range 2 {
		b.await(t, "the senders end", func() bool { return b.Senders.Open == 0 })
		ask()
	}
	want := []batch{{1, true}, {5, false}, {1, false}, {1, true}}
	assert.ErrorIf(t, !slices.Equal(sent, want), "sent %v, want %v", sent, want)
}

func TestSenders_allowed(t *testing.T) {
	for trip, want := range map[time.Duration]int{
		50 * time.Microsecond: 1, 5 * time.Millisecond: 6, 40 * time.Millisecond: maxSenders,
	} {
		l := senders{RoundTrip: trip}
		assert.Equal(t, l.allowed(), want, "%v: the number of senders", trip)
	}
}

func TestSenders_end(t *testing.T) {
	var l senders
	ends := func(took time.Duration, answered bool) {
		f := &inflight{}
		l.inflights = append(l.inflights, f)
		l.end(f, clock.Moment(took), answered)
	}
	takes := func(took time.Duration) { ends(took, true) }
	for i := range 2000 {
		if i%20 == 0 {
			takes(50 * time.Millisecond)
		} else {
			takes(time.Millisecond)
		}
	}
	if l.RoundTrip < time.Millisecond || l.RoundTrip > 2*time.Millisecond || l.Usual < 900*time.Microsecond || l.Usual > 1200*time.Microsecond {
		t.Errorf("round trip %v and usual round trip %v, want about a millisecond", l.RoundTrip, l.Usual)
	}
	for range 200 {
		takes(20 * time.Millisecond)
	}
	ends(time.Microsecond, false) // a refused connection
	assert.ErrorIf(t, l.RoundTrip < 15*time.Millisecond || l.Usual < 15*time.Millisecond,
		"round trip %v and usual round trip %v on a link that has become longer", l.RoundTrip, l.Usual)
}
