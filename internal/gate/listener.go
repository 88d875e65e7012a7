package gate

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// Event is what a [Listener] is told of: the check of a client, as a source has decided.
type Event struct {
	Check  *limiter.Check
	Source limiter.Source
	DryRun bool // the check has no effect on its request
}

// Listener is told what happens to clients: the one place where the listeners of the configuration's events and the receiver of its
// webhook are. No request waits for a listener.
type Listener interface {
	// Denied tells of a denial, by the check that binds.
	Denied(e Event)

	// Banned tells of a ban that begins.
	Banned(e Event)

	// ListensForThresholds reports whether an event of a threshold would reach anything.
	ListensForThresholds() bool

	// Thresholds tells that the use of a quota has reached marks, which have no other event for the time quiet. It keeps the
	// check. It reports false if nothing is told, as there is no room for further events.
	Thresholds(e Event, marks []rule.Fraction, quiet time.Duration) bool

	// ThresholdsLater calls find in the background, and tells of the marks that it returns as Thresholds does. It reports false if
	// there is no room: find is not called then.
	ThresholdsLater(e Event, find func() (marks []rule.Fraction, quiet time.Duration)) bool

	// TakesSigns reports whether BanSign, and whether ThresholdSign needs to be called. The answer never changes.
	TakesSigns() (bans, thresholds bool)

	// BanSign and ThresholdSign take a request that shows that a ban has begun, or that a mark was reached before: should the node
	// that met the event end before the webhook's receiver has it, this node tells.
	BanSign(c *limiter.Check)
	ThresholdSign(c *limiter.Check, mark rule.Fraction, quiet time.Duration)
}

// showSigns shows the listener what checks that Redis has decided say of earlier events. A banned client has nothing left,
// which is a sign of each mark.
func (l *Limiter) showSigns(made *Decision) {
	if !IsShared(made.Source) {
		return
	}
	for i := range made.Checks {
		c := &made.Checks[i]
		r := l.Rules.RuleOf(c)
		if l.banSigns && c.Result.Banned && !c.Result.BanBegins {
			l.Listener.BanSign(c)
		}
		if l.thresholdSigns && len(r.Notify) > 0 && c.Result.Remaining != limiter.Unknown {
			l.showPassedMarks(c, r, made.Source)
		}
	}
}

// showPassedMarks shows the marks that were reached before a check.
func (l *Limiter) showPassedMarks(c *limiter.Check, r *rule.Rule, s limiter.Source) {
	capacity := l.Stores.CapacityIn(c.Policy, s) // which asks no store
	before := capacity - c.Unused()
	if c.Result.Passes() {
		before -= limiter.Taken(c)
	}
	for _, mark := range r.Notify {
		if before >= mark.Of(capacity) {
			l.Listener.ThresholdSign(c, mark, quietTime(c))
		}
	}
}

// IsShared reports whether all nodes of a Redis share what a source has decided.
func IsShared(s limiter.Source) bool {
	return s == limiter.SourceRedis || s == limiter.SourceLease || s == limiter.SourceDenyCache
}
