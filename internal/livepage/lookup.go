package livepage

import (
	"sync"
	"time"
)

// loadShare is the share of time that lookups of a kind may take: one of so many parts.
const loadShare = 20

// Lookup is an answer that takes time to find. It is looked up in the background, while it is asked for: never twice at
// once, and at most so often that lookups take a twentieth of the time. It is safe for concurrent use.
type Lookup[T any] struct {
	// Every is the least time between two lookups.
	Every time.Duration

	// Patience is the longest that a question waits for a lookup that it has begun or finds under way. Later ones show what
	// it has found.
	Patience time.Duration

	// Idle is how long a lookup waits for others, which is no load.
	Idle time.Duration

	mu     sync.Mutex
	owner  any // whose answer it is
	answer T
	found  bool
	next   time.Time     // of a lookup
	under  chan struct{} // it is closed when the lookup under way ends; nil: none is
}

// Get returns the last answer, and whether there is one. If it is time for a new one, the function looks it up. An answer
// to another owner is dropped.
func (l *Lookup[T]) Get(owner any, look func() T) (answer T, found bool) {
	l.mu.Lock()
	if l.owner != owner {
		var none T
		l.owner, l.answer, l.found, l.next, l.under = owner, none, false, time.Time{}, nil
	}
	if l.under == nil && !time.Now().Before(l.next) {
		l.under = make(chan struct{})
		go l.run(owner, l.under, look)
	}
	under := l.under
	l.mu.Unlock()
	if under != nil {
		patience := time.NewTimer(l.Patience)
		defer patience.Stop()
		select {
		case <-under:
		case <-patience.C:
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner != owner {
		return answer, false
	}
	return l.answer, l.found
}

// run looks an answer up, and drops it if the owner has changed meanwhile.
func (l *Lookup[T]) run(owner any, done chan struct{}, look func() T) {
	began := time.Now()
	answer := look()
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner == owner && l.under == done {
		l.answer, l.found, l.under = answer, true, nil
		l.next = began.Add(max(l.Every, loadShare*(took-l.Idle)))
	}
	close(done)
}
