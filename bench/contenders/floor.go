package contenders

import (
	"context"
	"runtime"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// floor decides nothing: requests wait for a batch, as those of this repository's handler do, and pass. It is
// the price of waiting alone.
type floor struct {
	*goredis.Client // that a batch sends a PING to; nil: the batch is answered at once

	mu      sync.Mutex
	waiting []chan struct{}
	sending bool
}

var floorWaiters = sync.Pool{New: func() any { return make(chan struct{}, 1) }}

func (f *floor) take(context.Context, string) (answer, error) {
	woken := floorWaiters.Get().(chan struct{}) //nolint:forcetypeassert,errcheck // the pool holds nothing else
	f.mu.Lock()
	f.waiting = append(f.waiting, woken)
	if !f.sending {
		f.sending = true
		go f.send()
	}
	f.mu.Unlock()
	<-woken
	floorWaiters.Put(woken)
	return answer{true, Limit - 1, time.Second}, nil
}

// send answers batches until nothing waits.
func (f *floor) send() {
	var batch []chan struct{}
	for {
		runtime.Gosched()
		f.mu.Lock()
		batch, f.waiting = f.waiting, batch[:0]
		f.sending = len(batch) > 0
		f.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		if f.Client != nil {
			f.Ping(context.Background())
		}
		for _, woken := range batch {
			woken <- struct{}{}
		}
	}
}

// Close implements [io.Closer].
func (f *floor) Close() error {
	if f.Client == nil {
		return nil
	}
	return f.Client.Close()
}
