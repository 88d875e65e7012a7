package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/deploy/scene"
)

// Times of the scenario, since its beginning.
const (
	floodBegins  = 15 * time.Second
	floodEnds    = 35 * time.Second
	outageBegins = 50 * time.Second
	outageEnds   = 62 * time.Second
	length       = 85 * time.Second
)

// stream is a number of clients that request a path, at a common rate.
type stream struct {
	path      string
	clients   int
	perSecond float64
	from, to  time.Duration
}

var streams = []stream{
	{"/api", 250, 500, 0, length},
	{"/api", 8, 700, floodBegins, floodEnds}, // the flood: each client far above its limit
	{"/login", 100, 30, 0, length},
	{"/login", 5, 80, floodBegins, floodEnds},
	{"/payments", 60, 200, 0, length},
	{"/trial", 25, 60, 0, length},
	{"/trial", 2, 20, 0, length},
}

// runScenario sends all streams and stops Redis for the outage, until the context ends.
func runScenario(ctx context.Context, s *scene.Scene, begin time.Time) error {
	var running sync.WaitGroup
	defer running.Wait()
	for i, st := range streams {
		running.Go(func() { st.send(ctx, s, begin, fmt.Sprint("stream-", i)) })
	}
	if !waitUntil(ctx, begin.Add(outageBegins)) {
		return stopped(ctx)
	}
	s.KillRedis()
	if !waitUntil(ctx, begin.Add(outageEnds)) {
		return stopped(ctx)
	}
	return s.StartRedis(ctx)
}

// waitUntil waits for a time. It returns false if the context ends before.
func waitUntil(ctx context.Context, at time.Time) bool {
	select {
	case <-time.After(time.Until(at)):
		return true
	case <-ctx.Done():
		return false
	}
}

// senders bounds the requests of a stream in flight. Further ones are left out, as by clients that wait
// for a response before the next request.
const senders = 64

// send sends the requests of a stream in small groups, at a rate that rises and falls in slow waves.
func (st stream) send(ctx context.Context, s *scene.Scene, begin time.Time, name string) {
	var running sync.WaitGroup
	defer running.Wait()
	due := make(chan struct{})
	defer close(due)
	for range senders {
		running.Go(func() {
			for range due {
				client := fmt.Sprint(name, "-", rand.IntN(st.clients))
				_, _ = s.Get(ctx, st.path, client) // the metrics count failures
			}
		})
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	owed, last := 0.0, begin
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if at := now.Sub(begin); at >= st.from && at < st.to {
				wave := 1 + 0.15*math.Sin(2*math.Pi*at.Seconds()/25)
				owed = min(owed+st.perSecond*wave*now.Sub(last).Seconds(), senders)
			}
			last = now
		}
		for ; owed >= 1; owed-- {
			select {
			case due <- struct{}{}:
			default: // all senders wait for a response
			}
		}
	}
}
