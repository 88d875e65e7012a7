package load

import (
	"syscall"
	"time"
)

// pauseUntil sleeps until an instant, to some 50 microseconds. The runtime's own timers wake an
// idle process in whole milliseconds only, the unit of epoll_wait.
func pauseUntil(due time.Time) {
	for left := time.Until(due); left > 0; left = time.Until(due) {
		duration := syscall.NsecToTimespec(int64(left))
		_ = syscall.Nanosleep(&duration, nil) // interrupted by a signal: the loop sleeps the rest
	}
}
