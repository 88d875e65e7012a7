package gate

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// Webhook tells a receiver of thresholds and bans, once for all nodes. It never waits.
type Webhook interface {
	// TellsThresholds reports whether the receiver wants the events of thresholds.
	TellsThresholds() bool

	// Banned tells of a ban that begins.
	Banned(c *limiter.Check, source limiter.Source, dryRun bool)

	// Threshold tells that the use of a quota has reached a fraction of it, which has no other event for a time.
	Threshold(c *limiter.Check, mark rule.Fraction, source limiter.Source, dryRun bool, quiet time.Duration)

	// BanSign and ThresholdSign take a request that shows that a ban has begun, or that a fraction was reached before: should
	// the node that met the event end before the receiver has it, this node tells.
	BanSign(c *limiter.Check)
	ThresholdSign(c *limiter.Check, mark rule.Fraction, quiet time.Duration)
}

// tellThresholds tells the webhook of marks that a check has reached.
func (l *Limiter) tellThresholds(c *limiter.Check, marks []rule.Fraction, s limiter.Source, dryRun bool) {
	if !l.webhookThresholds {
		return
	}
	for _, mark := range marks {
		l.Webhook.Threshold(c, mark, s, dryRun, quietTime(c))
	}
}

// showSigns shows the webhook what checks that Redis has decided say of earlier events. A banned client has nothing left,
// which is a sign of each mark.
func (l *Limiter) showSigns(group *CheckGroup) {
	if !IsShared(group.Source) {
		return
	}
	for i := range group.Checks {
		c := &group.Checks[i]
		r := l.Rules.RuleOf(c)
		if c.Result.Banned && !c.Result.BanBegins {
			l.Webhook.BanSign(c)
		}
		if l.webhookThresholds && len(r.Notify) > 0 && c.Result.Remaining != limiter.Unknown {
			l.showPassedMarks(c, r, group.Source)
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
			l.Webhook.ThresholdSign(c, mark, quietTime(c))
		}
	}
}

// IsShared reports whether all nodes of a Redis share what a source has decided.
func IsShared(s limiter.Source) bool {
	return s == limiter.SourceRedis || s == limiter.SourceLease || s == limiter.SourceDenyCache
}
