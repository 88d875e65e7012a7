package webhook

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// schedule runs jobs when they are due: at most so many at once, of at most so many in all. [newSchedule] makes one. It is
// safe for concurrent use. Without jobs it holds no goroutine and no timer.
type schedule[T any] struct {
	most, atOnce int

	// do does a job, and reports whether the job is to be done again, and after which time.
	do func(ctx context.Context, job T) (again bool, after time.Duration)

	life context.Context //nolint:containedctx // of all jobs
	stop context.CancelFunc
	next clock.Task // runs when the first waiting job is due

	mu      sync.Mutex
	waiting dueJobs[T]
	running int
	added   uint64
	ended   bool
}

// dueJob is a job with the moment at which it is due. Of two at one moment the first that was added is first.
type dueJob[T any] struct {
	due   clock.Moment
	order uint64
	job   T
}

func newSchedule[T any](most, atOnce int, do func(ctx context.Context, job T) (bool, time.Duration)) *schedule[T] {
	s := &schedule[T]{most: most, atOnce: atOnce, do: do}
	s.life, s.stop = context.WithCancel(context.Background())
	s.next.Run, s.next.Life = s.begin, s.life
	return s
}

// add adds a job that is due after a time, and reports whether there was room. It never waits.
func (s *schedule[T]) add(job T, after time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(s.waiting)+s.running >= s.most {
		return false
	}
	s.push(job, after)
	return true
}

// push adds a job. The lock is held.
func (s *schedule[T]) push(job T, after time.Duration) {
	now := clock.Now()
	s.added++
	heap.Push(&s.waiting, dueJob[T]{now.Add(after), s.added, job})
	s.wake(now)
}

// wake sets the timer for the first waiting job, if one more may run. The lock is held.
func (s *schedule[T]) wake(now clock.Moment) {
	if len(s.waiting) > 0 && s.running < s.atOnce {
		s.next.StartBy(s.waiting[0].due, now)
	}
}

// begin runs the jobs that are due.
func (s *schedule[T]) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Now()
	for !s.ended && s.running < s.atOnce && len(s.waiting) > 0 && s.waiting[0].due <= now {
		first, _ := heap.Pop(&s.waiting).(dueJob[T])
		s.running++
		go s.run(first.job)
	}
	s.wake(now)
}

// run does a job.
func (s *schedule[T]) run(job T) {
	again, after := s.do(s.life, job)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	switch {
	case s.ended: // its end has counted the job
	case again:
		s.push(job, after)
	default:
		s.wake(clock.Now())
	}
}

// len counts the jobs, those that run now among them.
func (s *schedule[T]) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) + s.running
}

// end ends all jobs, also those that run, without waiting for them. It returns how many there were.
func (s *schedule[T]) end() (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left = len(s.waiting) + s.running
	s.ended, s.waiting = true, nil
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
