package rule

import (
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
)

// Evaluation is what a request takes from whom. Enforced is appended to, so that a caller may bring
// memory along.
type Evaluation struct {
	// Enforced are the checks that decide.
	Enforced []limiter.Check

	// DryRun are the checks of dry-run rules.
	DryRun []limiter.Check

	// DryRefusals are the dry-run rules that would refuse the request without a decision.
	DryRefusals []DryRefusal

	// Blocked says that overrides or limits of 0 refuse the request. The results of Enforced are then those
	// of a denial, by BlockedBy.
	Blocked bool

	// BlockedBy is [SourceOverride] where an override refuses the request, and otherwise the source of a
	// limit of 0, [limiter.SourceMemory].
	BlockedBy limiter.Source

	// DryBlocks are the checks of dry-run rules that would refuse the request in these ways, with their
	// results; [BlockSource] says by which.
	DryBlocks []limiter.Check

	// Exempted says that an override has left a rule out.
	Exempted bool

	// Pass is what the client's browser brings along.
	Pass Pass

	// AnyMatch has all rules concern the request, whatever they match: to read quotas, not to take from them.
	// Rules with one quota keep the weight of the first.
	AnyMatch bool

	// OnFinding is called for every rule, also for those after one that refuses the request. Nil: these are
	// not evaluated.
	OnFinding func(f Finding)
}

// Finding is what a rule has to do with a request.
type Finding struct {
	// Rule is the rule.
	Rule *Rule

	// Status says what it does.
	Status Status

	// Key is the client's key, empty unless the rule counts, is blocked or exempted.
	Key limiter.EncodedKey

	// DryRun says that the rule only pretends for this request.
	DryRun bool

	// Override is what an operator has set for the key; nil for nothing.
	Override *overrides.Entry

	// Err says why the rule refuses the request.
	Err error

	// Refused says that an earlier rule refuses the request.
	Refused bool
}

// DryRefusal is a dry-run rule that would refuse a request: its key is empty, or its matchers fail.
type DryRefusal struct {
	Rule *Rule
	Err  error
}

// Concerns reports whether a rule has to do with the request.
func (e *Evaluation) Concerns() bool {
	return len(e.Enforced)+len(e.DryRun)+len(e.DryRefusals)+len(e.DryBlocks) > 0
}

// add adds a check to those of its kind.
func (e *Evaluation) add(rule *Rule, check *limiter.Check, dry bool) {
	if dry {
		e.DryRun = rule.addTo(e.DryRun, check, e.AnyMatch)
	} else {
		e.Enforced = rule.addTo(e.Enforced, check, e.AnyMatch)
	}
}

// addTo adds a check by the rule to those of the request, to an earlier one of the same quota if there
// is one. The weights are added up, unless the check only reads.
func (r *Rule) addTo(checks []limiter.Check, check *limiter.Check, reads bool) []limiter.Check {
	for i := range checks {
		if !r.repeats {
			break
		}
		if checks[i].SameQuota(check) {
			if reads {
				return checks
			}
			checks[i].Weight = AddWeights(checks[i].Weight, check.Weight)
			return checks
		}
	}
	return append(checks, *check)
}
