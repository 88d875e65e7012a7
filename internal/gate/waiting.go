package gate

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// This file has requests wait for units of running requests until it is their turn. The limiter has one rule then, so that no
// other policy is charged after the wait.

// waitOutcome is how the wait of a request has ended.
type waitOutcome string

// The outcomes of waits. A request that starts at once has waited too, for no time.
const (
	waitStarted   waitOutcome = "started"
	waitTimeout   waitOutcome = "timeout"    // it has waited for as long as it may
	waitFull      waitOutcome = "full"       // as many wait as may, of the key or in this process
	waitPushedOut waitOutcome = "pushed_out" // one of a value with fewer waiting requests has taken its place
	waitLeft      waitOutcome = "left"       // the client has left
	waitExit      waitOutcome = "exit"       // the process ends
	waitRefused   waitOutcome = "refused"    // it cannot start at all: it is blocked, or needs more units than the limit has
)

// waitOutcomeOf returns the outcome of a wait that ended with an error, or without an error.
func waitOutcomeOf(err error) waitOutcome {
	switch {
	case err == nil:
		return waitStarted
	case errors.Is(err, waiting.ErrTimeout):
		return waitTimeout
	case errors.Is(err, waiting.ErrFull), errors.Is(err, waiting.ErrNoRoom):
		return waitFull
	case errors.Is(err, waiting.ErrPushedOut):
		return waitPushedOut
	case errors.Is(err, waiting.ErrExit):
		return waitExit
	case errors.Is(err, waiting.ErrNever), errors.Is(err, waiting.ErrBlocked):
		return waitRefused
	}
	return waitLeft
}

// decideInTurn has the only check of a request decided once it is the request's turn.
func (x *Exchange) decideInTurn(e *rule.Evaluation, made *Decision) {
	l, d, start := x.limiter, x.decision, time.Now()
	l.Begin(made, e)
	check := &made.Checks[0]
	if made.Mode == limiter.FailClosed && x.stores.FailingFor(check.Key) {
		made.Conclude(limiter.SourceRedis, limiter.ErrOutage)
		return
	}
	r := l.Rules.RuleOf(check)
	waiter := l.Rules.NewWaiter(r, x.request, x.repl, e.Body, check.Key)
	request := waiting.Request{
		Policy: check.Policy, Key: check.Key, Weight: limiter.Units(check), Longest: r.Wait.Longest, Most: r.Wait.Most,
		FailMode: made.Mode, Current: func() waiting.Standing { return standingOf(waiter.Current()) },
	}
	if value, byValue := l.Rules.TurnOf(r, x.request, x.repl, e.Body); byValue {
		request.Order = waiting.ByValue(rule.TurnHash(value))
	}
	place, err := x.awaitPlace(x.stores.Queue.Join(request), start.Add(r.Wait.Longest))
	waited := time.Since(start)
	rare := d.addRare()
	rare.waited, rare.held = waited, rare.held+waited
	l.Counters[r.Index].CountWait(string(waitOutcomeOf(err)), waited)
	switch {
	case err != nil:
		x.refuseTurn(made, waiter, err)
		return
	case place.Free != nil:
		*made = Decision{Outcome: limiter.OutcomeExempt, Source: exemptSource(place.Free.Exempted)}
		return
	}
	x.place = place
	x.work() // which ends it
	source := place.Held.Source
	check.Policy, check.Result = place.Held.Check.Policy, place.Held.Check.Result
	if place.HandedOn { // which the store has heard nothing of: what remains is not known but that the limit was in use
		check.Result, source = limiter.Result{ResetAfter: limiter.Duration(kernel.RunningHint)}, limiter.SourceMemory
	}
	made.Conclude(source, place.Held.Undecided)
}

// standingOf returns what applies to a request that waits, by the policy and the status of its rule.
func standingOf(p *limiter.Policy, status rule.Status) waiting.Standing {
	switch status {
	case rule.Blocked:
		return waiting.Blocked{}
	case rule.Exempted, rule.Unlimited:
		return waiting.Free{Exempted: status == rule.Exempted}
	}
	return waiting.Under{Policy: p}
}

// refuseTurn concludes the decision about a request that has got no place, by the error of its wait.
func (x *Exchange) refuseTurn(made *Decision, waiter *rule.Waiter, err error) {
	check, hint := &made.Checks[0], limiter.Duration(kernel.RunningHint)
	check.Result = limiter.Result{RetryAfter: hint, ResetAfter: hint}
	source, undecided := limiter.SourceMemory, error(nil)
	switch {
	case errors.Is(err, waiting.ErrLeft):
		undecided = cmp.Or(x.request.Context().Err(), err)
	case errors.Is(err, waiting.ErrExit), errors.Is(err, waiting.ErrNoRoom):
		undecided = rule.Refuse(http.StatusServiceUnavailable, err)
	case rule.IsRefusal(err): // of the request's body
		undecided = err
	case errors.Is(err, waiting.ErrTimeout) && made.Mode == limiter.FailClosed && x.stores.FailingFor(check.Key):
		undecided = limiter.ErrOutage
	case errors.Is(err, waiting.ErrNever):
		check.Result.RetryAfter = limiter.Never
	case errors.Is(err, waiting.ErrBlocked):
		source = limiter.SourceOverride
		if block, result := waiter.Block(); block != nil {
			check.Result = result
			x.limiter.countBlock(block.Everywhere())
		}
	}
	made.Conclude(source, undecided)
}

// soon is how long a request waits before its body is read. Where a place is free, the store answers within that.
const soon = 5 * time.Millisecond

// awaitPlace waits for the place of a request, while its client stays. Over HTTP/1.1 Go notices that a client has left only
// once the request's body is read. A body that other handlers may read as well is read before the wait therefore, within the
// bounds of bodies, or of the wait if that is longer. One that is larger or tells no length, or for which a quarter of the room
// for bodies has none left, is left alone: its client is noticed to have left when the handlers read.
func (x *Exchange) awaitPlace(ticket *waiting.Ticket[failover.RunningUnits], latest time.Time) (*failover.WaitingPlace, error) {
	r := x.request
	if r.ProtoMajor == 1 && requestbody.MayHave(r) && !ticket.HasOutcomeWithin(soon) {
		bounds := x.limiter.BodyBounds
		bounds.Within = max(bounds.Within, time.Until(latest))
		switch reading := x.limiter.Bodies.ReadToNotice(x.ResponseWriter, r, bounds); reading.Result() {
		case requestbody.TooSlow:
			return nil, endOfWait(ticket, latest, rule.Refuse(reading.Result().Status(), errSlowBody))
		case requestbody.Failed:
			_ = ticket.Leave()
			return nil, bodyError(reading.Err())
		}
	}
	return ticket.Wait(r.Context())
}

// endOfWait returns why a request is refused whose body is late: the end of the wait if that is over, else the given reason. A
// timeout of the server may have ended the read before; the request then leaves the line at once. A place that it has goes to
// the next.
func endOfWait(ticket *waiting.Ticket[failover.RunningUnits], latest time.Time, late error) error {
	if time.Now().Before(latest) {
		if err := ticket.Leave(); !errors.Is(err, waiting.ErrLeft) {
			return err
		}
		return late
	}
	place, err := ticket.Wait(context.Background())
	if err != nil {
		return err
	}
	place.End()
	return late
}
