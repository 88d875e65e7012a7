package webhook

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// look is a mark of another node's event that this node watches, until the event is told, or until that node has stopped
// to tell, so that this one takes over.
type look struct {
	mark   Mark
	key    Key
	holder string
	ends   clock.Moment
}

// MayLook reports whether a request that shows that another node may tell of an event is a reason to look at its mark: one
// in five minutes is. The parts name the event. The time is that of the request.
func (d *Dispatcher) MayLook(now time.Time, name ...string) bool {
	return d.looked.Pass(now, d.pace.lookInterval, name...)
}

// Look watches the mark of an event of a key that another node tells of, and takes over should that node end. Look does
// not wait. If too many marks are watched, this one is not.
func (d *Dispatcher) Look(key Key, mark Mark) {
	d.looks.add(0, &look{mark, key, rand.Text(), clock.Now().Add(d.pace.patience + d.pace.hold)}, d.pace.lookDelay)
}

// look looks at a mark.
func (d *Dispatcher) look(ctx context.Context, l *look) (again bool, after time.Duration) {
	a, err := l.mark.ask(ctx, stepLook, l.holder, d.pace.hold, &Event{})
	switch {
	case err != nil || a.claim == claimNone || a.claim == claimTold:
		return false, 0
	case a.claim == claimHeld:
		return l.ends > clock.Now(), a.after + randomUpTo(time.Second)
	}
	d.queue(&delivery{event: a.event, key: &l.key, mark: &l.mark, holder: l.holder, ends: d.endOf(&a.event), marked: true, count: 1}, ofClients)
	return false, 0
}

// randomUpTo returns a random time.
func randomUpTo(most time.Duration) time.Duration { return mathrand.N(most + 1) }
