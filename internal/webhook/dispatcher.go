// Package webhook tells a receiver of events by HTTP, by the conventions of Standard Webhooks. An event that all nodes
// share is told by one of them, which a mark in Redis says; should that node end, another one takes over. Nothing waits
// for the receiver: events wait in a bounded queue.
package webhook

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

const (
	// mostLooks is how many marks of others are watched, and looksAtOnce how many of them are looked at.
	mostLooks   = 1024
	looksAtOnce = 2
)

// pace says how long what takes.
type pace struct {
	// patience is for how long an event is sent again.
	patience time.Duration

	// shortestWait and longestWait bound the time between two attempts, which doubles. hold is for how long a node has a mark
	// without renewing: longer than an attempt and the longest wait together. Another node that takes over waits for as long.
	shortestWait, longestWait, hold time.Duration

	// lookDelay lets the node that met an event write its mark first. lookInterval is the time between two looks at one mark
	// while requests show that there may be one: half of patience, so that one falls into it.
	lookDelay, lookInterval time.Duration

	// burst is the while in which many events of one kind are a burst, and gather for how long events of one are gathered.
	burst, gather time.Duration
}

var usualPace = pace{
	patience: 10 * time.Minute, shortestWait: time.Second, longestWait: 30 * time.Second, hold: time.Minute,
	lookDelay: 2 * time.Second, lookInterval: 5 * time.Minute, burst: time.Minute, gather: 10 * time.Second,
}

// DeliveryStatus says what became of a delivery.
type DeliveryStatus string

// The statuses. Each event that this node tells has one in the end, after any number of [retry].
const (
	delivered DeliveryStatus = "delivered" // the receiver has answered with 2xx
	retry     DeliveryStatus = "retry"     // an attempt failed and is repeated
	expired   DeliveryStatus = "expired"   // no attempt has succeeded in ten minutes
	gone      DeliveryStatus = "gone"      // the receiver has answered with 410 and wants no event any more
	dropped   DeliveryStatus = "dropped"   // the queue was full
	lost      DeliveryStatus = "lost"      // it waited when the process ended, or when the webhook was removed
)

// DeliveryStatuses returns all statuses.
func DeliveryStatuses() []DeliveryStatus {
	return []DeliveryStatus{delivered, retry, expired, gone, dropped, lost}
}

// Hooks are told what becomes of events. They must not block.
type Hooks struct {
	// Count counts so many deliveries.
	Count func(o DeliveryStatus, n int)

	// OnFailing is called with an error when attempts begin to fail, and with nil when one succeeds again: once a minute at
	// most, also if every second attempt fails. The error holds neither URL nor secret.
	OnFailing func(err error)

	// OnUntold is called for every event that is [expired], [gone] or [dropped].
	OnUntold func(o DeliveryStatus)
}

// Dispatcher tells one receiver. [New] makes one. It is safe for concurrent use.
type Dispatcher struct {
	receiver   *receiver
	hooks      Hooks
	deliveries *schedule[*delivery]
	bursts     *bursts
	looks      *schedule[*look]
	looked     *clock.EventFilter // the marks that were looked at lately
	pace       pace
	failing    atomic.Bool // as OnFailing was told
	warned     clock.Gate  // of failing attempts
	gone       atomic.Bool
}

// delivery is an event on its way. One goroutine at a time has it.
type delivery struct {
	event    Event
	key      *Key  // nil: it is no client's
	mark     *Mark // nil: this node alone tells
	holder   string
	ends     clock.Moment
	attempts int
	marked   bool // the mark has the event

	// Events of a burst, this one among them. While it gathers further ones, the lock of the bursts guards the count.
	count   int
	gathers *kindOfEvent
}

// New returns a dispatcher for a receiver. It sends nothing before the first event.
func New(u *url.URL, secret Secret, hooks Hooks) *Dispatcher {
	return newAt(usualPace, u, secret, hooks)
}

func newAt(p pace, u *url.URL, secret Secret, hooks Hooks) *Dispatcher {
	d := &Dispatcher{receiver: newReceiver(u, secret), hooks: hooks, looked: clock.NewEventFilter(), pace: p, bursts: newBursts(p)}
	d.deliveries = newSchedule(d.deliver, deliveryLanes()...)
	d.looks = newSchedule(d.look, lane[*look]{most: mostLooks, atOnce: looksAtOnce})
	return d
}

// Tell tells of an event of a rank that this node alone knows. Tell does not wait.
func (d *Dispatcher) Tell(e Event, r rank) {
	d.queue(&delivery{event: e, ends: clock.Now().Add(d.pace.patience), count: 1}, r)
}

// TellOfClient tells of an event of a client's key, which may be nil. With a mark one node of all tells, without one this
// node does. Many events of one kind in a while are told as one. TellOfClient does not wait.
func (d *Dispatcher) TellOfClient(e Event, kind string, key *Key, mark *Mark) {
	now := clock.Now()
	j := &delivery{event: e, key: key, mark: mark, holder: rand.Text(), ends: now.Add(d.pace.patience), count: 1}
	if !d.bursts.join(j, kind, now) {
		d.queue(j, ofClients)
	}
}

func (d *Dispatcher) queue(j *delivery, r rank) {
	after := time.Duration(0)
	if j.gathers != nil {
		after = d.pace.gather
	}
	if !d.deliveries.add(int(r), j, after) {
		d.finish(dropped, d.bursts.end(j))
	}
}

// endGathering ends the gathering of a delivery before its first attempt, as the body is the same in all attempts. Events of
// a burst have no mark: nodes agree on single events.
func (d *Dispatcher) endGathering(j *delivery) {
	if count := d.bursts.end(j); count > 1 {
		j.event.data["count"], j.mark = count, nil
	}
}

// Len counts the events that wait or are sent.
func (d *Dispatcher) Len() int { return d.deliveries.len() }

// Resume sends events again to a receiver that had answered with 410.
func (d *Dispatcher) Resume() { d.gone.Store(false) }

// Close ends all attempts at once, without waiting for them, and returns how many events are lost, which it counts.
func (d *Dispatcher) Close() (waited int) {
	d.looks.end()
	if waited = d.deliveries.end(); waited > 0 {
		d.hooks.Count(lost, waited)
	}
	d.receiver.close()
	return waited
}

// finish counts so many events that are not told.
func (d *Dispatcher) finish(o DeliveryStatus, n int) {
	d.hooks.Count(o, n)
	d.hooks.OnUntold(o)
}

// deliver makes an attempt to tell of an event.
func (d *Dispatcher) deliver(ctx context.Context, j *delivery) (again bool, after time.Duration) {
	d.endGathering(j)
	if j.mark != nil {
		switch a := d.hold(ctx, j); a.claim {
		case claimTold:
			return false, 0
		case claimHeld:
			return j.ends > clock.Now(), a.after
		case claimOurs, claimNone: // without a mark any node may
		}
	}
	left := j.ends.Since(clock.Now())
	switch {
	case ctx.Err() != nil:
		return false, 0 // Close has counted the event
	case d.gone.Load():
		return d.end(ctx, j, gone)
	case left <= 0:
		return d.end(ctx, j, expired)
	}
	body, err := j.event.body(d.receiver.secret, j.key)
	if err == nil {
		err = d.receiver.send(ctx, j.event.id, body)
	}
	if ctx.Err() != nil && err != nil {
		return false, 0 // likewise
	}
	answer := refusal{}
	_ = errors.As(err, &answer) // otherwise there was no answer
	if answer.status == http.StatusGone {
		d.gone.Store(true)
		return d.end(ctx, j, gone)
	}
	if d.noteFailing(err); err == nil {
		return d.end(ctx, j, delivered)
	}
	d.hooks.Count(retry, 1)
	return true, min(d.nextWait(j, answer.after), left)
}

// end ends a delivery, and says so to other nodes.
func (d *Dispatcher) end(ctx context.Context, j *delivery, o DeliveryStatus) (again bool, after time.Duration) {
	if o == delivered {
		d.hooks.Count(o, 1)
	} else {
		d.finish(o, 1)
	}
	if j.marked {
		_, _ = j.mark.ask(ctx, stepEnd, j.holder, d.pace.hold, &j.event) // otherwise another node tells once more, with the same id
	}
	return false, 0
}

// noteFailing reports when attempts begin to fail, and when they end to.
func (d *Dispatcher) noteFailing(err error) {
	failed := err != nil
	if failed == d.failing.Load() || failed && !d.warned.Pass(time.Now(), time.Minute) {
		return
	}
	if d.failing.CompareAndSwap(!failed, failed) {
		d.hooks.OnFailing(err)
	}
}

// hold takes the mark of an event for the next attempt. If Redis does not answer, this node tells: better twice, with one
// id, than never. If the mark has an event already that no node holds any more, this node tells of that one.
func (d *Dispatcher) hold(ctx context.Context, j *delivery) answer {
	s := stepMeet
	switch {
	case j.marked:
		s = stepRenew
	case j.mark.New:
		s = stepBegin
	}
	a, err := j.mark.ask(ctx, s, j.holder, d.pace.hold, &j.event)
	if err != nil {
		return answer{}
	}
	if a.claim != claimOurs {
		return a
	}
	if j.marked = true; a.event.id != j.event.id {
		j.event, j.ends = a.event, d.endOf(&a.event)
	}
	return a
}

// endOf returns until when an event of another node is told, also if the clock of that node was ahead.
func (d *Dispatcher) endOf(e *Event) clock.Moment {
	return clock.Now().Add(d.pace.patience - max(0, time.Since(e.at)))
}

// nextWait returns the time until the next attempt: twice the last one, less a random part of up to a half, and not less
// than the receiver asks for.
func (d *Dispatcher) nextWait(j *delivery, asked time.Duration) time.Duration {
	wait := min(d.pace.longestWait, d.pace.shortestWait<<min(j.attempts, 10))
	j.attempts++
	return max(wait/2+randomUpTo(wait/2), min(asked, d.pace.longestWait))
}
