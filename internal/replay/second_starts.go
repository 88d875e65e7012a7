package replay

import (
	"slices"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

// secondStarts plays a log beside a replay, with all requests of a whole second at its start. The difference tells how far
// the replay may be off, as nothing tells when in their second they came.
type secondStarts struct {
	engine Engine
	last   int64   // the time of the last request
	denied int64   // requests
	each   []int64 // by policy
}

// longestShort is the longest window that whole seconds matter for: of a longer one a second is less than a sixtieth.
const longestShort = time.Minute

// mattersWithinSeconds reports whether a policy decides otherwise by when in a second requests come: in a short window, with
// a small burst, or while requests run.
func mattersWithinSeconds(policies []PolicyResult) bool {
	return slices.ContainsFunc(policies, func(p PolicyResult) bool {
		window := time.Duration(p.Window)
		switch {
		case p.CountsRunning():
			return true
		case p.Calendar != "":
			return false
		case p.Burst > 0 && p.Limit > 0:
			window = time.Duration(float64(window) / float64(p.Limit) * float64(p.Burst)) // in which a bucket is full again
		}
		return window <= longestShort
	})
}

func newSecondStarts(again func() (Engine, error), policies int) (*secondStarts, error) {
	engine, err := again()
	if err != nil {
		return nil, err
	}
	return &secondStarts{engine: engine, each: make([]int64, policies)}, nil
}

// play plays an entry at the start of its second. Requests keep their order.
func (s *secondStarts) play(e *accesslog.Entry) {
	if s == nil {
		return
	}
	start := e.AtSecondStart()
	start.Time = max(start.Time, s.last)
	if s.last = start.Time; start.Ends != 0 {
		start.Ends = max(start.Ends, start.Time)
	}
	v := s.engine.Play(&start)
	if v.Outcome == limiter.OutcomeDenied {
		s.denied++
	}
	for i := range v.Policies {
		if d := &v.Policies[i]; d.Denied && !d.LeftOut {
			s.each[d.Policy]++
		}
	}
}

// finish adds the differences to a result.
func (s *secondStarts) finish(r *Result) {
	if s == nil {
		return
	}
	r.DeniedOff = difference(r.Denied, s.denied)
	for i := range r.Policies {
		r.Policies[i].DeniedOff = difference(r.Policies[i].Denied, s.each[i])
	}
}

func difference(a, b int64) int64 { return max(a-b, b-a) }
