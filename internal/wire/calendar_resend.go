package wire

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"

// This file sends checks again whose calendar periods, as they were sent, are not around Redis's time. A
// node derives the periods from its own clock and what earlier answers have shown of Redis's:
//
//	node, 3 days ahead:   take, of the months from February to May  -> NOPERIOD, and now: January 31
//	the same sender:      take, of the months from December to March -> decided
//
// A script raises the error before it changes anything of the request. The second time it is the answer:
// Redis's clock has jumped between the two.

// HasUncovered reports whether the answer says of a call that its periods are not around now.
func (m *Message) HasUncovered() bool {
	if m.RedisTime == 0 || !m.usesPeriods() {
		return false
	}
	for _, c := range m.Order {
		if c.IsUncovered() {
			return true
		}
	}
	return false
}

// usesPeriods reports whether a policy of the message counts in calendar periods.
func (m *Message) usesPeriods() bool {
	return m.Kernels&KernelSetOf(&kernel.CalendarAlgorithm) != 0
}
