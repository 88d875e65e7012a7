package waiting

import "time"

// Waits is how many requests wait, and for how long the oldest of them has waited so far. The zero value: no request waits.
type Waits struct {
	Count  int
	Oldest time.Duration
}

// And returns the waits of both sets of requests.
func (w Waits) And(other Waits) Waits {
	return Waits{w.Count + other.Count, max(w.Oldest, other.Oldest)}
}
