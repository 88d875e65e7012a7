package queue

import (
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestSenders_allowed(t *testing.T) {
	for trip, want := range map[time.Duration]int{
		50 * time.Microsecond: 1, 5 * time.Millisecond: 6, 40 * time.Millisecond: maxSenders,
	} {
		l := senders{RoundTrip: trip}
		got := l.allowed()
		redistest.ErrorIf(t, got != want, "%v: %d senders, want %d", trip, got, want)
	}
}

func TestSenders_observe(t *testing.T) {
	var l senders
	for i := range 2000 {
		if i%20 == 0 {
			l.observe(50 * time.Millisecond)
		} else {
			l.observe(time.Millisecond)
		}
	}
	if l.RoundTrip < time.Millisecond || l.RoundTrip > 2*time.Millisecond || l.Usual < 900*time.Microsecond || l.Usual > 1200*time.Microsecond {
		t.Errorf("round trip %v and usual round trip %v, want about a millisecond", l.RoundTrip, l.Usual)
	}
	for range 200 {
		l.observe(20 * time.Millisecond)
	}
	redistest.ErrorIf(t, l.RoundTrip < 15*time.Millisecond || l.Usual < 15*time.Millisecond,
		"round trip %v and usual round trip %v on a link that has become longer", l.RoundTrip, l.Usual)
}
