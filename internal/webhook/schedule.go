package webhook

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// schedule runs jobs when they are due, in lanes, of which an earlier one goes first and keeps room. [newSchedule] makes one.
// It is safe for concurrent use. Without jobs it holds no goroutine and no timer.
type schedule[T any] struct {
	// do does a job, and reports whether the job is to be done again, and after which time.
	do func(ctx context.Context, job T) (again bool, after time.Duration)

	life context.Context //nolint:containedctx // of all jobs
	stop context.CancelFunc
	next clock.Task // runs when the first waiting job is due

	mu    sync.Mutex
	lanes []lane[T]
	added uint64
	ended bool
}

// lane has jobs of one rank. Its bounds hold for the jobs of the lane and of all later lanes together.
type lane[T any] struct {
	most, atOnce int // jobs in all, and those that run

	waiting dueJobs[T]
	running int
}

func (l *lane[T]) len() int { return len(l.waiting) + l.running }

// dueJob is a job with the moment at which it is due. Of two at one moment the first that was added is first.
type dueJob[T any] struct {
	due   clock.Moment
	order uint64
	job   T
}

func newSchedule[T any](do func(ctx context.Context, job T) (bool, time.Duration), lanes ...lane[T]) *schedule[T] {
	s := &schedule[T]{lanes: lanes, do: do}
	s.life, s.stop = context.WithCancel(context.Background())
	s.next.Run, s.next.Life = s.begin, s.life
	return s
}

// add adds a job to a lane, which is due after a time, and reports whether there was room. It never waits.
func (s *schedule[T]) add(at int, job T, after time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || !s.hasRoom(at) {
		return false
	}
	s.push(at, job, after)
	return true
}

// hasRoom reports whether a lane may have one more job. The lock is held.
func (s *schedule[T]) hasRoom(at int) bool {
	later := 0
	for i := len(s.lanes) - 1; i >= 0; i-- {
		later += s.lanes[i].len()
		if i <= at && later >= s.lanes[i].most {
			return false
		}
	}
	return true
}

// mayRun reports whether one more job of a lane may run. The lock is held.
func (s *schedule[T]) mayRun(at int) bool {
	later := 0
	for i := len(s.lanes) - 1; i >= 0; i-- {
		later += s.lanes[i].running
		if i <= at && later >= s.lanes[i].atOnce {
			return false
		}
	}
	return true
}

// push adds a job. The lock is held.
func (s *schedule[T]) push(at int, job T, after time.Duration) {
	now := clock.Now()
	s.added++
	heap.Push(&s.lanes[at].waiting, dueJob[T]{now.Add(after), s.added, job})
	s.wake(now)
}

// wake sets the timer for the first waiting job that may run. The lock is held.
func (s *schedule[T]) wake(now clock.Moment) {
	for i := range s.lanes {
		if waiting := s.lanes[i].waiting; len(waiting) > 0 && s.mayRun(i) {
			s.next.StartBy(waiting[0].due, now)
		}
	}
}

// begin runs the jobs that are due.
func (s *schedule[T]) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Now()
	for i := range s.lanes {
		l := &s.lanes[i]
		for !s.ended && s.mayRun(i) && len(l.waiting) > 0 && l.waiting[0].due <= now {
			first, _ := heap.Pop(&l.waiting).(dueJob[T])
			l.running++
			go s.run(i, first.job)
		}
	}
	s.wake(now)
}

// run does a job of a lane.
func (s *schedule[T]) run(at int, job T) {
	again, after := s.do(s.life, job)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lanes[at].running--
	switch {
	case s.ended: // its end has counted the job
	case again:
		s.push(at, job, after)
	default:
		s.wake(clock.Now())
	}
}

// len counts the jobs, those that run now among them.
func (s *schedule[T]) len() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.lanes {
		n += s.lanes[i].len()
	}
	return n
}

// end ends all jobs, also those that run, without waiting for them. It returns how many there were.
func (s *schedule[T]) end() (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.lanes {
		left += s.lanes[i].len()
		s.lanes[i].waiting = nil
	}
	s.ended = true
	s.stop()
	s.next.Stop()
	return left
}

// dueJobs is a heap with the first job at its top.
type dueJobs[T any] []dueJob[T]

// Len implements [heap.Interface].
func (d dueJobs[T]) Len() int { return len(d) }

// Less implements [heap.Interface].
func (d dueJobs[T]) Less(i, j int) bool {
	return d[i].due < d[j].due || d[i].due == d[j].due && d[i].order < d[j].order
}

// Swap implements [heap.Interface].
func (d dueJobs[T]) Swap(i, j int) { d[i], d[j] = d[j], d[i] }

// Push implements [heap.Interface].
func (d *dueJobs[T]) Push(x any) {
	job, _ := x.(dueJob[T])
	*d = append(*d, job)
}

// Pop implements [heap.Interface].
func (d *dueJobs[T]) Pop() any {
	old := *d
	last := old[len(old)-1]
	old[len(old)-1] = dueJob[T]{} // free for the collector
	*d = old[:len(old)-1]
	return last
}
