package queue

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/decision"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
)

// gate is a batcher whose batches wait until the test opens it.
type gate struct {
	Batcher
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
	c := NewCall(wire.OpTake, []limiter.Check{{Key: limiter.EncodeKey("k")}})
	go func() {
		err := g.Do(ctx, c, timeout)
		if err == nil {
			c.Recycle()
		}
		done(err)
	}()
}

func (g *gate) waitForQueue(t *testing.T, n int) {
	t.Helper()
	redistest.WaitFor(t, "the queue is filled", func() error {
		g.Mu.Lock()
		defer g.Mu.Unlock()
		if len(g.Waiting) != n {
			return fmt.Errorf("%d calls wait", len(g.Waiting))
		}
		return nil
	})
}

func TestBatcher_waiting_calls(t *testing.T) {
	g := newGate()
	var group sync.WaitGroup
	ask := func() {
		group.Add(1)
		g.request(context.Background(), time.Minute, func(error) { group.Done() })
	}
	ask()
	if n := <-g.started; n != 1 {
		t.Errorf("a lone request went with %d", n)
	}
	for range wire.MaxBatch + 10 {
		ask()
	}
	g.waitForQueue(t, wire.MaxBatch+10)
	g.release <- struct{}{}
	if n := <-g.started; n != wire.MaxBatch {
		t.Errorf("the next batch has %d requests, want %d", n, wire.MaxBatch)
	}
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
	redistest.WaitFor(t, "the requests time out", func() error {
		if len(errs) < 20 {
			return fmt.Errorf("%d of them", len(errs))
		}
		return nil
	})
	cancel()
	kinds := map[error]int{}
	for range 40 {
		kinds[<-errs]++
	}
	if kinds[context.Canceled] != 20 || kinds[decision.ErrUnsent] != 20 {
		t.Errorf("errors %v", kinds)
	}
	close(g.release)
	if err := <-errs; err != nil {
		t.Error(err)
	}
	redistest.WaitFor(t, "all goroutines are gone", func() error {
		if n := runtime.NumGoroutine(); n > before {
			return fmt.Errorf("%d goroutines, %d before", n, before)
		}
		return nil
	})
	if len(g.started) != 0 {
		t.Errorf("%d requests were sent after their clients had left", len(g.started))
	}
}

func TestBatcher_full_queue(t *testing.T) {
	g := newGate()
	var group sync.WaitGroup
	group.Add(1)
	g.request(context.Background(), time.Minute, func(error) { group.Done() })
	<-g.started
	for range MaxQueue {
		if err := g.Enqueue(NewCall(wire.OpTake, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Enqueue(NewCall(wire.OpTake, nil)); limiter.Kind(err) != "overload" {
		t.Errorf("error %v", err)
	}
	close(g.release)
	group.Wait()
}

func TestBatcher_stalled_batches(t *testing.T) {
	g := newGate()
	g.Senders.Usual = 0
	var group sync.WaitGroup
	for range wire.MaxOpenSenders {
		group.Add(1)
		g.request(context.Background(), time.Minute, func(error) { group.Done() })
		<-g.started // none of the earlier ones has come back
	}
	close(g.release)
	group.Wait()
	redistest.WaitFor(t, "surplus senders end", func() error {
		g.Mu.Lock()
		defer g.Mu.Unlock()
		if l := &g.Senders; l.Open != 0 || l.stalled != 0 || len(l.inflights) != 0 || g.stalls.IsSet() {
			return fmt.Errorf("%+v, watched %v", g.Senders, g.stalls.IsSet())
		}
		return nil
	})
}

func TestBatcher_lost_answer(t *testing.T) {
	var b Batcher
	var alone []bool // whether a batch was sent within a request's own timeout
	b.ready = 3
	b.Send = func(ctx context.Context, _ []*Call) bool {
		_, bounded := ctx.Deadline()
		alone = append(alone, bounded)
		return false
	}
	for range 2 {
		c := NewCall(wire.OpTake, []limiter.Check{{Key: limiter.EncodeKey("k")}})
		if err := b.Do(context.Background(), c, time.Minute); err != nil {
			t.Fatal(err)
		}
		c.Recycle()
	}
	if want := []bool{true, false}; !slices.Equal(alone, want) {
		t.Errorf("sent within a request's own timeout: %v, want %v", alone, want)
	}
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
	b := Batcher{ready: 1}
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
		c := NewCall(wire.OpTake, []limiter.Check{{Key: limiter.EncodeKey("k")}})
		if err := b.Do(context.Background(), c, time.Minute); err != nil {
			t.Error(err)
		}
		c.Recycle()
	}
	var crowd sync.WaitGroup
	crowd.Go(ask)
	<-entered
	for range 5 {
		crowd.Go(ask)
	}
	redistest.WaitFor(t, "five requests wait", func() error {
		b.Mu.Lock()
		defer b.Mu.Unlock()
		if len(b.Waiting) != 5 {
			return fmt.Errorf("%d", len(b.Waiting))
		}
		return nil
	})
	close(first)
	crowd.Wait()
	for range 2 {
		redistest.WaitFor(t, "the senders end", func() error {
			b.Mu.Lock()
			defer b.Mu.Unlock()
			if b.Senders.Open != 0 {
				return fmt.Errorf("%d are open", b.Senders.Open)
			}
			return nil
		})
		ask()
	}
	if want := []batch{{1, true}, {5, false}, {1, false}, {1, true}}; !slices.Equal(sent, want) {
		t.Errorf("sent %v, want %v", sent, want)
	}
}
