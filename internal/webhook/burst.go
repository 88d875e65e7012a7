package webhook

import (
	"sync"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

const (
	// mostAlone is how many events of a kind are told one by one in a while. Later ones of that while are a burst.
	mostAlone = 8

	// mostKinds bounds the kinds that are remembered. Events of other kinds are told one by one.
	mostKinds = 1024
)

// bursts gathers events of one kind that come one upon the other into one, which has their count. [newBursts] makes one. It
// is safe for concurrent use.
type bursts struct {
	pace pace

	mu    sync.Mutex
	kinds map[string]*kindOfEvent
}

// kindOfEvent has the events of one kind lately.
type kindOfEvent struct {
	began     clock.Moment // of the while that is counted
	alone     int          // events of that while that are told one by one
	gathering *delivery    // nil: none waits for further events
}

func newBursts(p pace) *bursts { return &bursts{pace: p, kinds: map[string]*kindOfEvent{}} }

// join counts a delivery of a kind as part of one that gathers, and reports whether there is one. Otherwise the delivery
// goes its own way: it gathers itself if there were many of the kind.
func (b *bursts) join(j *delivery, kind string, now clock.Moment) (joined bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.kindAt(kind, now)
	switch {
	case k == nil:
	case k.gathering != nil:
		k.gathering.count++
		return true
	case k.alone < mostAlone:
		k.alone++
	default:
		k.gathering, j.gathers = j, k
	}
	return false
}

// kindAt returns what is remembered of a kind; nil if there are too many others. The lock is held.
func (b *bursts) kindAt(kind string, now clock.Moment) *kindOfEvent {
	k := b.kinds[kind]
	switch {
	case k == nil && !b.hasRoom(now):
		return nil
	case k == nil:
		k = &kindOfEvent{began: now}
		b.kinds[kind] = k
	case b.isOver(k, now):
		k.began, k.alone = now, 0
	}
	return k
}

func (b *bursts) isOver(k *kindOfEvent, now clock.Moment) bool {
	return now.Since(k.began) >= b.pace.burst
}

// hasRoom reports whether one more kind may be remembered, and forgets those of long ago if there are many. The lock is held.
func (b *bursts) hasRoom(now clock.Moment) bool {
	if len(b.kinds) < mostKinds {
		return true
	}
	for name, k := range b.kinds {
		if k.gathering == nil && b.isOver(k, now) {
			delete(b.kinds, name)
		}
	}
	return len(b.kinds) < mostKinds
}

// end ends the gathering of a delivery, so that the event no longer changes, and returns how many events it is.
func (b *bursts) end(j *delivery) (count int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if j.gathers != nil {
		j.gathers.gathering, j.gathers = nil, nil
	}
	return j.count
}
