package gate

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/answer"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// Decide has the store decide about a request. The decision is empty before.
func (x *Exchange) Decide(e *rule.Evaluation, made *Decision) {
	l, random := x.limiter, rand.Uint64()
	x.acquireStores()
	if l.notesEarly || x.vars[decisionVar] != nil {
		x.decisionOf() // what is met on the way is noted in it
	}
	var dry *dryRuns
	if l.hasDryRuns {
		dry = dryRunsOf(e)
	}
	switch {
	case l.waits && len(e.Enforced) > 0 && !e.Blocked:
		x.decideInTurn(e, made)
	case len(e.Enforced) > 0:
		x.decideEnforced(e, made, dry, random%memorySampled == 0)
	default:
		made.Outcome = limiter.OutcomeAllowed
		if dry != nil {
			_, _ = x.ask(limiter.FailLocal, nil, dry) // the outcomes are in the dry runs
		}
	}
	if made.Outcome == limiter.OutcomeExempt {
		x.noteExempt(made.Source)
		return
	}
	if dry != nil {
		x.endDryRuns(dry, e.Input)
	}
	if l.countsRunning {
		x.keepRunning(made.Checks)
	}
	met := made.Checks
	if l.looks {
		made.Checks = withoutLooks(met)
	}
	if fields := l.server.logFields(x.request); l.isPlain && fields == nil && x.hasJustPassed(made) {
		x.sharePassed(made)
	} else {
		d := x.decisionAbout(made.Outcome == limiter.OutcomeDenied || made.Outcome == limiter.OutcomeFailedClosed)
		if made.Outcome == limiter.OutcomeAbandoned {
			if fields != nil {
				d.logWaited(fields)
			}
			return
		}
		d.note(made, l.Formats)
		if fields != nil {
			d.log(fields)
		}
	}
	l.count(met, made, random/memorySampled)
	if l.bans && made.Err == nil {
		l.countBans(made)
	}
	if l.showsSigns && made.Err == nil {
		l.showSigns(made)
	}
	if made.Outcome == limiter.OutcomeAllowed {
		if l.settles || l.notifies {
			x.keepPending(made, e.Input)
		}
		if l.delays {
			made.Delay = LongestDelay(made.Checks)
		}
	}
}

// withoutLooks returns the checks without the checks that only looked, and passed: nothing shows these.
func withoutLooks(checks []limiter.Check) []limiter.Check {
	return slices.DeleteFunc(slices.Clone(checks), func(c limiter.Check) bool { return rule.OnlyLooks(&c) && c.Result.Passes() })
}

// hasJustPassed reports whether the request has passed with nothing that may change afterwards.
func (x *Exchange) hasJustPassed(made *Decision) bool {
	return x.decision == nil && len(made.Checks) > 0 && made.Outcome == limiter.OutcomeAllowed
}

// sharePassed shares the decision of a request that has just passed. Outside of Caddy the request has no variables and no
// replacer.
func (x *Exchange) sharePassed(made *Decision) {
	kept := newPassed(x.vars, made.Checks, made.Source)
	if x.vars != nil {
		x.vars[decisionVar] = kept
	}
	if x.repl != nil {
		x.repl.Map(caddy.ReplacerFunc(kept))
	}
}

// memorySampled is of how many decisions in the process one is timed, at random: both readings of the clock and the
// histogram cost more than many a decision.
const memorySampled = 64

// decideEnforced decides the checks that are enforced, unless an override or a limit of 0 blocks the request, and the dry
// runs beside them, which may be nil.
func (x *Exchange) decideEnforced(e *rule.Evaluation, made *Decision, dry *dryRuns, inSample bool) {
	l := x.limiter
	if e.Pass.Taken != "" {
		taken := &x.decision.addRare().pass
		*taken = cmp.Or(*taken, e.Pass.Taken)
	}
	l.Begin(made, e)
	if made.Outcome != "" { // blocked
		l.countBlock(e.BlockedEverywhere)
		if dry != nil {
			_, _ = x.ask(limiter.FailLocal, nil, dry) // the outcomes are in the dry runs
		}
		return
	}
	var asked clock.Moment // 0: the decision is not timed
	if x.stores.Redis != nil || inSample {
		asked = clock.Now()
	}
	made.Conclude(x.ask(made.Mode, made.Checks, dry))
	switch {
	case asked == 0:
	case x.stores.Redis == nil:
		l.Process.MemorySeconds.Observe(clock.Now().Since(asked).Seconds())
	case made.Err != nil || made.Source == limiter.SourceFallback:
		if l.isTimeout(clock.Now().Since(asked)) {
			x.decisionOf().timedOut = true
		}
	}
}

// ask has the stores decide checks, which may be none, and dry runs beside them, which may be nil. A request that has
// waited for Redis in vain does not wait again, so that the waits of several handlers do not add up.
func (x *Exchange) ask(mode limiter.FailMode, checks []limiter.Check, dry *dryRuns) (source limiter.Source, err error) {
	ctx, timedOut := x.request.Context(), x.decision != nil && x.decision.timedOut
	switch {
	case dry == nil && !timedOut:
		return x.stores.DecideIn(ctx, mode, checks)
	case !timedOut:
		return x.stores.DecideBeside(ctx, mode, checks, dry.asked)
	}
	if len(checks) > 0 {
		source, err = x.stores.Fallback(mode, checks, limiter.ErrAlreadyTimedOut)
	}
	for i := 0; dry != nil && i < len(dry.asked); i++ {
		if d := &dry.asked[i]; d.Source == "" {
			d.Source, d.Err = x.stores.Fallback(limiter.FailLocal, d.Checks, limiter.ErrAlreadyTimedOut)
		}
	}
	return source, err
}

// isTimeout reports whether a request without an answer for so long has waited for one, and was not refused
// at once.
func (l *Limiter) isTimeout(took time.Duration) bool { return took >= l.Timeout/2 }

// note merges what one more handler decided, or that its policies could not be decided. A denial ends the request, so that
// the last outcome is that of the request. The headers show the policy that binds over all handlers.
func (d *sharedDecision) note(made *Decision, f answer.Formats) {
	made.at = time.Now()
	switch {
	case made.Err != nil:
	case len(made.Checks) == 0 && made.Source == "": // there is nothing to decide
		return
	default:
		d.quotas.Record(made.Checks, f, made.at)
	}
	d.outcome, d.source = made.Outcome, made.Source
	if made.Outcome == limiter.OutcomeDenied {
		d.ofRefusal().reason = made.Reason
	}
}

// count counts what was decided about checks, also about checks that only looked: for a denial only the policies that denied, for
// anything else all. Units that a request took are counted too: of running requests when these begin, and units that a response
// decides once it has. By one random number all policies count their units.
func (l *Limiter) count(checks []limiter.Check, made *Decision, random uint64) {
	outcome, source := made.Outcome, made.Source
	switch {
	case !made.DryRun:
	case outcome == limiter.OutcomeAllowed:
		outcome = limiter.OutcomeDryAllowed
	default:
		outcome = limiter.OutcomeDryDenied
	}
	row, column := 0, 0 // of most requests
	if outcome != storepool.Outcomes[row] {
		row = max(0, slices.Index(storepool.Outcomes, outcome))
	}
	if source != storepool.Sources[column] {
		column = max(0, slices.Index(storepool.Sources, source))
	}
	for i := range checks {
		r := l.Rules.RuleOf(&checks[i])
		counters := l.Counters[r.Index]
		if outcome == limiter.OutcomeDenied && checks[i].Result.Passes() {
			counters.CountDeniedByOthers()
			continue
		}
		if series := counters.Series[row][column].Load(); series != nil {
			(*series).Inc()
		} else {
			counters.Count(outcome, source)
		}
		switch {
		case outcome == limiter.OutcomeDenied:
			counters.Top.Add(checks[i].Key.String(), made.at)
			if checks[i].Result.ForOthers {
				counters.CountReserveDenied()
			}
		case outcome != limiter.OutcomeAllowed && outcome != limiter.OutcomeDryAllowed:
		case l.looks && rule.OnlyLooks(&checks[i]):
			counters.CountLooked()
		case !l.settles || !r.AwaitsResponse():
			counters.Used.Add(checks[i].Key, limiter.Units(&checks[i]), random)
		}
	}
}

// countBlock counts a request that a block refuses, if the block is one for all policies.
func (l *Limiter) countBlock(everywhere bool) {
	if everywhere && l.Process.Blocked != nil {
		l.Process.Blocked()
	}
}

// countBans counts the bans that a request began, and tells of them. A ban that a dry run begins is
// one: another handler with the policy enforces it.
func (l *Limiter) countBans(made *Decision) {
	for i := range made.Checks {
		if c := &made.Checks[i]; c.Result.BanBegins {
			l.Counters[l.Rules.RuleOf(c).Index].CountBan()
			l.Listener.Banned(Event{Check: c, Source: made.Source, DryRun: made.DryRun})
		}
	}
}
