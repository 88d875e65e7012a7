package gate

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/policystats"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// CheckGroup is checks that a store decides together.
type CheckGroup struct {
	Checks []limiter.Check
	DryRun bool

	// Mode decides if Redis does not.
	Mode failover.FailMode

	// Source is what has decided; empty: nothing has so far. What is blocked is refused before a store is asked.
	Source limiter.Source
}

// Verdict is what was decided about the checks that are enforced.
type Verdict struct {
	CheckGroup
	Outcome rule.Outcome
	Err     error         // why no store decided
	Delay   time.Duration // for how long queues hold the request
	at      time.Time
	pass    rule.Pass
}

// Undecided is the outcome if the client left, or its time was up, before a store decided.
const Undecided rule.Outcome = ""

// Decide has the store decide about a request.
func (x *Exchange) Decide(repl *caddy.Replacer, e *rule.Evaluation) Verdict {
	l, d := x.limiter, x.decisionOf(repl)
	x.acquireStores()
	var dry *dryRuns
	if l.hasDryRuns {
		dry = x.startDryRuns(e)
	}
	verdict := Verdict{Outcome: rule.Allowed}
	if len(e.Enforced) > 0 {
		verdict = x.decideEnforced(e)
	}
	if dry != nil {
		x.endDryRuns(dry)
	}
	if l.countsRunning {
		x.keepRunning(verdict.Checks)
	}
	switch {
	case verdict.Outcome == Undecided:
		return verdict
	case verdict.Err != nil:
		d.fail(verdict.Outcome)
	case len(verdict.Checks) > 0:
		d.add(&verdict, l.Formats)
	}
	l.count(verdict.Checks, verdict.Outcome, d.source)
	if l.bans && verdict.Err == nil {
		l.countBans(&verdict.CheckGroup)
	}
	d.log(x.request)
	if verdict.Outcome == rule.Allowed {
		if l.settles || l.notifies {
			x.keepPending(&verdict.CheckGroup)
		}
		if l.delays {
			verdict.Delay = LongestDelay(verdict.Checks)
		}
	}
	return verdict
}

// decideEnforced decides the checks that are enforced, unless an override or a limit of 0 blocks the request.
func (x *Exchange) decideEnforced(e *rule.Evaluation) Verdict {
	l, d, start := x.limiter, x.decision, time.Now()
	d.pass = cmp.Or(d.pass, e.Pass.Taken)
	verdict := Verdict{CheckGroup: l.Enforced(e), Outcome: rule.Denied, at: start, pass: e.Pass}
	if verdict.Source != "" {
		return verdict
	}
	verdict.Source, verdict.Err = x.ask(&verdict.CheckGroup, d.timedOut)
	took := time.Since(start)
	verdict.at = start.Add(took)
	switch {
	case verdict.Source == limiter.SourceMemory:
		l.Process.MemorySeconds.Observe(took.Seconds())
	case verdict.Err != nil || verdict.Source == limiter.SourceFallback:
		d.timedOut = d.timedOut || l.isTimeout(took)
	}
	verdict.Outcome = Undecided
	if undecided := errors.Is(verdict.Err, limiter.ErrUndecided); verdict.Err == nil || undecided {
		verdict.Outcome = Outcome(verdict.Checks, undecided, verdict.Mode)
	}
	return verdict
}

// ask has the stores decide a group. A request that has waited for Redis in vain does not wait again, so that the waits
// of several handlers do not add up.
func (x *Exchange) ask(group *CheckGroup, timedOut bool) (limiter.Source, error) {
	if timedOut {
		return x.stores.Fallback(group.Mode, group.Checks, limiter.ErrAlreadyTimedOut)
	}
	return x.stores.DecideIn(x.request.Context(), group.Mode, group.Checks)
}

// isTimeout reports whether a request without an answer for so long has waited for one, and was not refused
// at once.
func (l *Limiter) isTimeout(took time.Duration) bool { return took >= l.Timeout/2 }

// Enforced returns the group of the checks that are enforced.
func (l *Limiter) Enforced(e *rule.Evaluation) CheckGroup {
	group := CheckGroup{Checks: e.Enforced, Mode: l.FailMode}
	if e.Blocked {
		group.Source = e.BlockedBy
	}
	return group
}

// Blocked reports whether a check is refused before a store is asked, and by what.
func Blocked(c *limiter.Check) (by limiter.Source, blocked bool) {
	if c.Result.Passes() {
		return "", false
	}
	return rule.BlockSource(c), true
}

// Outcome returns what becomes of a request by its checks, or by a fail mode if no store decided these.
func Outcome(checks []limiter.Check, undecided bool, mode failover.FailMode) rule.Outcome {
	switch {
	case undecided && mode == failover.FailOpen:
		return rule.FailedOpen
	case undecided:
		return rule.FailedClosed
	case limiter.Allowed(checks):
		return rule.Allowed
	}
	return rule.Denied
}

// LongestDelay returns for how long the queues of checks hold their request.
func LongestDelay(checks []limiter.Check) (longest time.Duration) {
	for i := range checks {
		longest = max(longest, checks[i].Result.Delay)
	}
	return longest
}

// count counts what was decided: for a denial only the policies that denied, for anything else all.
func (l *Limiter) count(checks []limiter.Check, outcome rule.Outcome, source limiter.Source) {
	row, column := max(0, slices.Index(policystats.Outcomes, outcome)), max(0, slices.Index(policystats.Sources, source))
	for i := range checks {
		counters := l.Counters[l.Rules.RuleOf(&checks[i]).Index]
		if outcome == rule.Denied && checks[i].Result.Passes() {
			counters.CountDeniedByOthers()
			continue
		}
		if series := counters.Series[row][column].Load(); series != nil {
			(*series).Inc()
		} else {
			counters.Count(outcome, source)
		}
		if outcome == rule.Denied {
			counters.Top.Add(checks[i].Key.String())
		}
	}
}

// countBans counts the bans that a request began, and emits their events. A ban that a dry run begins is
// one: another handler with the policy enforces it.
func (l *Limiter) countBans(group *CheckGroup) {
	for i := range group.Checks {
		if c := &group.Checks[i]; c.Result.BanBegins {
			l.Counters[l.Rules.RuleOf(c).Index].CountBan()
			l.Events.Banned(c, group.Source, group.DryRun)
		}
	}
}

// acquireStores begins the use of the stores. Requests of a configuration may go on after its end, when its own use of
// the stores has ended as well; the stores are then opened again.
func (x *Exchange) acquireStores() {
	x.stores = x.limiter.Stores
	if x.stores.Uses.Add(1) <= 0 {
		x.stores = x.stores.Reopen()
	}
}

// releaseIfIdle ends the use of the stores if nothing is refunded, charged or ended later. A connection that was handed
// over may live for hours.
func (x *Exchange) releaseIfIdle() {
	if x.stores == nil || x.pending != nil && len(x.pending.checks)+len(x.pending.running) > 0 {
		return
	}
	if x.stores.Uses.Add(-1) == 0 {
		x.stores.CloseUnused()
	}
	x.stores = nil
}
