package rule

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyplan"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// This file is about values of the request's body: which rules need them, and what becomes of a request without one.

// Body has the values of a request's body. The body is read when the first of them is needed.
type Body interface {
	// Denies reports whether one of the checks is known to be denied, without a question to a store, and gives the checks
	// their results. The body need not be read then.
	Denies(checks []limiter.Check) bool

	// Values returns the values, by the plan of the set. The error refuses the request: there is no room for the body, or
	// it is the one of Err.
	Values() (*bodyplan.Values, error)

	// Unread returns, and forgets, why one of the body's placeholders that matchers asked for has no value. The error is that
	// of Values.
	Unread() (bodyvalue.Reason, error)

	// Err returns why nothing can go on with the body, whether or not a rule is a dry run: it did not arrive in time, or
	// reading it failed. Nil: it can, or the body has not been read.
	Err() error
}

// unreadError is the error of a value that applications may read in different ways, or not at all.
type unreadError struct{ reason bodyvalue.Reason }

// Error says why there is no value. It quotes nothing of the body.
func (e unreadError) Error() string {
	return fmt.Sprintf("the request's body has no value that all applications read (%v)", e.reason)
}

// reasonOther is the reason of a value that is there, but cannot be used.
const (
	reasonOther    = "value"
	reasonRepeated = "repeated"
	reasonNoRoom   = "no_room"
)

// ErrNoRoom is wrapped by the error of a request whose body is not read, because too many are held.
var ErrNoRoom = errors.New("there is no room to read the request's body")

// ReasonLabel returns why a value cannot be used, as a label of metrics, for the error that [Set.Warn] gets.
func ReasonLabel(err error) string {
	var unread unreadError
	switch {
	case errors.As(err, &unread):
		return unread.reason.String()
	case errors.Is(err, errRepeated):
		return reasonRepeated
	case errors.Is(err, ErrNoRoom):
		return reasonNoRoom
	}
	return reasonOther
}

// refuseUnusable returns the error of a request that is refused because a value that it has cannot be used.
func refuseUnusable(err, wrapped error) error {
	status := http.StatusBadRequest
	var unread unreadError
	if errors.As(err, &unread) {
		status = unread.reason.Status()
	}
	return Refuse(status, wrapped)
}

// planBody has the rule's values of the body be read by a plan.
func (r *Rule) planBody(plan *bodyplan.Plan) {
	n := &r.Numbers
	for _, p := range []*Placeholder{&n.LimitFrom, &n.BurstFrom, &n.WeightFrom} {
		r.readsBody = p.planBody(plan) || r.readsBody
	}
	r.Key.parts = slices.Clone(r.Key.parts) // which other sets may have, with numbers of their plans
	for i := range r.Key.parts {
		if r.Key.parts[i].planBody(plan) {
			r.readsBody, r.keysBody = true, true
		}
	}
	for _, source := range r.MatchBody {
		plan.Add(source)
	}
}

// planBody has a plan read the placeholder's value, and reports whether the value is one of the body.
func (p *Placeholder) planBody(plan *bodyplan.Plan) bool {
	switch p.field.kind {
	case bodyField:
		p.field.number = plan.Add(p.field.source)
		return true
	case tokensField:
		plan.AddTokens()
		return true
	}
	return false
}

// usesBody reports whether a value of the body decides about the rule.
func (r *Rule) usesBody() bool { return r.readsBody || len(r.MatchBody) > 0 }

// ReadsBody reports whether the set reads request bodies.
func (s *Set) ReadsBody() bool { return !s.BodyPlan.IsEmpty() }

// needsBody reports whether the rules that use the body are to be evaluated after the others: not if these refuse the
// request, or a store is known to.
func (s *Set) needsBody(e *Evaluation, refused error) bool {
	switch {
	case len(s.Rules) == s.bodiless:
		return false
	case e.OnFinding != nil:
		return true
	case refused != nil || e.Blocked:
		return false
	case e.Body != nil && len(e.Enforced) > 0 && e.Body.Denies(e.Enforced):
		e.Blocked, e.BlockedBy = true, limiter.SourceDenyCache
		return false
	}
	return true
}

// readBody reads the body for a rule. The error refuses the request.
func (s *Set) readBody(rule *Rule, q *request, e *Evaluation) (err error) {
	if q.body != nil || e.Body == nil {
		return nil
	}
	q.body, err = e.Body.Values()
	s.warnNoRoom(rule, "key", err)
	return err
}

// warnNoRoom warns if an option of a rule has no value because the body was not read for want of room.
func (s *Set) warnNoRoom(rule *Rule, option string, err error) {
	if errors.Is(err, ErrNoRoom) {
		s.warn(rule, option, err)
	}
}

// matches reports whether the rule's matchers select a request. Of a value of the body that cannot be read no matcher can
// tell: the error refuses the request, unless the rule passes such requests.
func (s *Set) matches(rule *Rule, q *request, body Body) (bool, error) {
	if len(rule.MatchBody) == 0 || body == nil {
		matches, err := rule.Match.AnyMatchWithError(q.Request)
		if err != nil {
			err = matchError(rule, err)
		}
		return matches, err
	}
	unread := bodyvalue.ReasonNone
	for _, set := range rule.Match {
		matches, err := set.MatchWithError(q.Request)
		if err != nil {
			return false, matchError(rule, err)
		}
		reason, err := body.Unread()
		if err != nil {
			s.warnNoRoom(rule, "match", err)
			return false, err
		}
		if matches && reason == bodyvalue.ReasonNone {
			return true, nil
		}
		if reason != bodyvalue.ReasonNone {
			unread = reason
		}
	}
	if unread == bodyvalue.ReasonNone {
		return false, nil
	}
	err := unreadError{unread}
	s.warn(rule, "match", err)
	if rule.PassUnread {
		return false, nil
	}
	return false, refuseUnusable(err, err)
}

func matchError(rule *Rule, err error) error {
	return fmt.Errorf("matching the requests of policy %q: %w", rule.Policy.Name(), err)
}

// valueOfBody returns a value of the body; an absent one where no body can be read.
func (q *request) valueOfBody(p *Placeholder) bodyvalue.Value {
	if q.body == nil {
		return bodyvalue.Value{}
	}
	return q.body.Value(p.field.number)
}
