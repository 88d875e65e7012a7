package gate

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// Decide has the store decide about a request.
func (x *Exchange) Decide(e *rule.Evaluation) Verdict {
	l := x.limiter
	x.acquireStores()
	vars, _ := x.request.Context().Value(caddyhttp.VarsCtxKey).(map[string]any) // nil outside of Caddy
	if l.notesEarly || vars[decisionVar] != nil {
		x.decisionOf() // what is met on the way is noted in it
	}
	var dry *dryRuns
	if l.hasDryRuns {
		dry = dryRunsOf(e)
	}
	verdict := Verdict{Outcome: rule.Allowed}
	switch {
	case l.waits && len(e.Enforced) > 0 && !e.Blocked:
		verdict = x.decideInTurn(e)
	case len(e.Enforced) > 0:
		verdict = x.decideEnforced(e, dry)
	case dry != nil:
		_, _ = x.ask(limiter.FailLocal, nil, dry) // the outcomes are in the dry runs
	}
	if verdict.Outcome == rule.Exempt {
		x.noteExempt(verdict.Source)
		return verdict
	}
	if dry != nil {
		x.endDryRuns(dry, e.Input)
	}
	if l.countsRunning {
		x.keepRunning(verdict.Checks)
	}
	met := verdict.Checks
	if l.looks {
		verdict.Checks = withoutLooks(met)
	}
	if fields := logFields(x.request); l.isPlain && fields == nil && x.hasJustPassed(&verdict) {
		sharePassed(vars, x.repl, &verdict)
	} else {
		d := x.decisionAbout(verdict.Outcome, vars)
		if verdict.Outcome == Undecided {
			if fields != nil {
				d.logWaited(fields)
			}
			return verdict
		}
		d.note(&verdict, l.Formats)
		if fields != nil {
			d.log(fields)
		}
	}
	l.count(met, verdict.Outcome, verdict.Source, verdict.at)
	if l.bans && verdict.Err == nil {
		l.countBans(&verdict.CheckGroup)
	}
	if l.Webhook != nil && verdict.Err == nil {
		l.showSigns(&verdict.CheckGroup)
	}
	if verdict.Outcome == rule.Allowed {
		if l.settles || l.notifies {
			x.keepPending(&verdict.CheckGroup, e.Input)
		}
		if l.delays {
			verdict.Delay = LongestDelay(verdict.Checks)
		}
	}
	return verdict
}

// withoutLooks returns the checks without those that only looked, and passed: nothing shows them.
func withoutLooks(checks []limiter.Check) []limiter.Check {
	return slices.DeleteFunc(slices.Clone(checks), func(c limiter.Check) bool { return rule.OnlyLooks(&c) && c.Result.Passes() })
}

// hasJustPassed reports whether the request has passed with nothing that may change afterwards, by one policy alone.
func (x *Exchange) hasJustPassed(v *Verdict) bool {
	return x.decision == nil && len(v.Checks) == 1 && v.Outcome == rule.Allowed
}

// sharePassed shares the decision of a request that has just passed, by one piece of memory. Outside of Caddy the request
// has no variables and no replacer.
func sharePassed(vars map[string]any, repl *caddy.Replacer, v *Verdict) {
	made := newPassed(vars, &v.Checks[0], v.Source)
	if vars != nil {
		vars[decisionVar] = made
	}
	if repl != nil {
		repl.Map(caddy.ReplacerFunc(made))
	}
}

// memorySampled is of how many decisions in the process one is timed, at random: both readings of the clock and the
// histogram cost more than many a decision.
const memorySampled = 64

// decideEnforced decides the checks that are enforced, unless an override or a limit of 0 blocks the request, and the dry
// runs beside them, which may be nil.
func (x *Exchange) decideEnforced(e *rule.Evaluation, dry *dryRuns) Verdict {
	l := x.limiter
	if e.Pass.Taken != "" {
		taken := &x.decision.addRare().pass
		*taken = cmp.Or(*taken, e.Pass.Taken)
	}
	verdict := Verdict{CheckGroup: l.Enforced(e), Outcome: rule.Denied, pass: e.Pass}
	if verdict.Source != "" {
		l.countBlock(e.BlockedEverywhere)
		if dry != nil {
			_, _ = x.ask(limiter.FailLocal, nil, dry) // the outcomes are in the dry runs
		}
		return verdict
	}
	var asked clock.Moment // 0: the decision is not timed
	if x.stores.Redis != nil || rand.Uint64()%memorySampled == 0 {
		asked = clock.Now()
	}
	verdict.Source, verdict.Err = x.ask(verdict.Mode, verdict.Checks, dry)
	switch {
	case asked == 0:
	case x.stores.Redis == nil:
		l.Process.MemorySeconds.Observe(clock.Now().Since(asked).Seconds())
	case verdict.Err != nil || verdict.Source == limiter.SourceFallback:
		if l.isTimeout(clock.Now().Since(asked)) {
			x.decisionOf().timedOut = true
		}
	}
	verdict.Outcome = Undecided
	if undecided := errors.Is(verdict.Err, limiter.ErrUndecided); verdict.Err == nil || undecided {
		verdict.Outcome = Outcome(verdict.Checks, undecided, verdict.Mode)
	}
	return verdict
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
func (d *decision) note(v *Verdict, f quotaheader.Formats) {
	v.at = time.Now()
	switch {
	case v.Err != nil:
		v.Source = limiter.SourceRedis
	case len(v.Checks) == 0 && v.Source == "": // there is nothing to decide
		return
	default:
		d.quotas.Record(v.Checks, f, v.at)
	}
	d.outcome, d.source = v.Outcome, v.Source
	if v.Outcome == rule.Denied {
		d.ofRefusal().reason = rule.ReasonOf(v.Checks, v.Source)
	}
}

// count counts what was decided: for a denial, which was noted at the given time, only the policies that denied, for anything
// else all. Units that a request took are counted too, those of running requests when these begin, and those that a response
// decides once it has.
func (l *Limiter) count(checks []limiter.Check, outcome rule.Outcome, source limiter.Source, at time.Time) {
	row, column := max(0, slices.Index(storepool.Outcomes, outcome)), max(0, slices.Index(storepool.Sources, source))
	for i := range checks {
		r := l.Rules.RuleOf(&checks[i])
		counters := l.Counters[r.Index]
		if outcome == rule.Denied && checks[i].Result.Passes() {
			counters.CountDeniedByOthers()
			continue
		}
		if series := counters.Series[row][column].Load(); series != nil {
			(*series).Inc()
		} else {
			counters.Count(outcome, source)
		}
		switch {
		case outcome == rule.Denied:
			counters.Top.Add(checks[i].Key.String(), at)
			if checks[i].Result.ForOthers {
				counters.CountReserveDenied()
			}
		case outcome != rule.Allowed && outcome != rule.DryAllowed:
		case l.looks && rule.OnlyLooks(&checks[i]):
			counters.CountLooked()
		case !l.settles || !r.AwaitsResponse():
			counters.Used.Add(checks[i].Key, limiter.Units(&checks[i]))
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
func (l *Limiter) countBans(group *CheckGroup) {
	for i := range group.Checks {
		if c := &group.Checks[i]; c.Result.BanBegins {
			l.Counters[l.Rules.RuleOf(c).Index].CountBan()
			l.Events.Banned(c, group.Source, group.DryRun)
			if l.Webhook != nil {
				l.Webhook.Banned(c, group.Source, group.DryRun)
			}
		}
	}
}
