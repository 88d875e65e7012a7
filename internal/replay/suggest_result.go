package replay

import (
	"errors"
	"slices"
	"sync"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// finish plays the limits and returns the result. Without a [sampleReport] the smallest limits that leave keys untouched are
// exact; 0 means that the highest limit that was tried is too low, or that there was no request. All ladders of windows
// show the same limits.
func (s *Suggester) finish() (*suggestions, error) {
	r := s.result
	r.Requests, r.Clients, r.OwnLimit = s.met.total, len(s.met.keys), s.ownLimit()
	r.NotTried = slices.Clone(r.NotTried)
	ladders, err := s.play()
	if err != nil {
		return nil, err
	}
	r.Ladders = ladders[:len(s.names)]
	keepUseful(r.Ladders, r.Requests, r.Clients, r.OwnLimit)
	if s.running.requests == 0 {
		return &r, nil
	}
	own := int64(0)
	if len(s.result.NotTried) == 0 {
		own = s.own.MaxConcurrent
	}
	if r.Running = s.running.result(s.busiest, own); r.Running == nil {
		r.NotTried = append(r.NotTried, "limits of requests that run at once are not tried: the log has no durations")
		return &r, nil
	}
	atOnce := ladders[len(s.names):]
	keepUseful(atOnce, s.ran.total, len(s.ran.keys), own)
	r.Running.Limits = &atOnce[0]
	return &r, nil
}

// play plays each algorithm in a goroutine of its own, and returns their ladders, that of running requests behind those
// of windows.
func (s *Suggester) play() ([]Ladder, error) {
	ladders, errs := make([]Ladder, len(s.names)+1), make([]error, len(s.names)+1)
	var all sync.WaitGroup
	for i, algorithm := range s.names {
		all.Go(func() { ladders[i], errs[i] = newTrial(s.own, algorithm, s.met).ladder(s.limits) })
	}
	if s.TriesRunning() {
		last := len(s.names)
		all.Go(func() { ladders[last], errs[last] = newTrial(s.own, maxConcurrent, s.ran).ladder(s.atOnce) })
	}
	all.Wait()
	return ladders, errors.Join(errs...)
}

// newTrial returns the trial of an algorithm on a sample of the policy's requests.
func newTrial(own limiter.Settings, algorithm string, sample *sample) *trial {
	return &trial{algorithm: algorithm, settings: tried(own, algorithm), sample: sample}
}
