package failover

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// RunningUnits are what a request that has waited runs with, until they are returned or go on with another one.
type RunningUnits struct {
	// Check is the request's, with the store's last answer about the key. Its units are in its State.
	Check limiter.Check

	// Source has decided.
	Source limiter.Source

	// Undecided is why the shared store has not decided, if the request is let through for that ([limiter.FailOpen]); else nil.
	Undecided error
}

// Queue has requests wait here for units of the store, see package waiting.
type Queue = waiting.Queue[RunningUnits]

// WaitingPlace is the place of a request that has waited.
type WaitingPlace = waiting.Place[RunningUnits]

// NewQueue returns an empty queue for units of running requests of a store.
func NewQueue(f *Store, around waiting.Environment) *Queue { return waiting.NewQueue(turns{f}, around) }

// FailingFor reports whether requests of a key are kept from the shared store.
func (f *Store) FailingFor(key limiter.EncodedKey) bool {
	if f.shared == nil {
		return false
	}
	n, _ := f.shared.NodeOf(key)
	return n.Breaker.Open()
}

// turns decides the asks of the queue. It implements [waiting.Decider].
type turns struct{ *Store }

// Try implements [waiting.Decider]. The shared store is asked in a goroutine, as by a request of its own.
func (t turns) Try(ask waiting.Ask, answered func(waiting.Answer[RunningUnits])) {
	if t.shared == nil {
		answered(t.decideTurnHere(&ask))
		return
	}
	go func() { answered(t.decideTurn(&ask)) }()
}

// checkOf returns the check of an ask.
func checkOf(ask *waiting.Ask) limiter.Check {
	return limiter.Check{Policy: ask.Policy, Key: ask.Key, Weight: ask.Weight}
}

// decideTurnHere decides an ask in this process, where no other node has claims.
func (t turns) decideTurnHere(ask *waiting.Ask) waiting.Answer[RunningUnits] {
	checks := [1]limiter.Check{checkOf(ask)}
	source, _ := t.decideHere(checks[:])
	return answerOf(&checks[0], source, waiting.NoClaim(), limiter.Duration(ask.Turn.Age))
}

// decideTurn decides an ask on the shared store, or by its fail mode. What this process runs does not deny it: places that
// go on from one request to another would be denied too.
func (t turns) decideTurn(ask *waiting.Ask) waiting.Answer[RunningUnits] {
	checks := [1]limiter.Check{checkOf(ask)}
	check := &checks[0]
	answer, err := t.shared.DecideTurn(context.Background(), check, &ask.Turn)
	if errors.Is(err, redis.ErrForgotten) {
		return waiting.Forgotten[RunningUnits]{}
	}
	if err != nil {
		source, reason := t.Fallback(ask.FailMode, checks[:], err)
		switch {
		case reason == nil: // this process has decided, and knows of no claim
			return answerOf(check, source, waiting.Claim{}, limiter.Duration(ask.Turn.Age))
		case ask.FailMode == limiter.FailOpen:
			return waiting.Granted[RunningUnits]{Held: RunningUnits{*check, source, reason}, Free: math.MaxInt64}
		}
		return waiting.Unknown[RunningUnits]{}
	}
	t.local.StartRunning(checks[:])
	claim := waiting.NoClaim()
	if answer.Foreign > 0 {
		claim = waiting.ForeignClaim(answer.Foreign)
	}
	return answerOf(check, limiter.SourceRedis, claim, answer.TurnAge)
}

// answerOf returns the answer to an ask whose check was decided.
func answerOf(check *limiter.Check, source limiter.Source, claim waiting.Claim, turnAge time.Duration) waiting.Answer[RunningUnits] {
	if !check.Result.Passes() {
		return waiting.Denied[RunningUnits]{TurnAge: turnAge, Claim: claim}
	}
	return waiting.Granted[RunningUnits]{Held: RunningUnits{*check, source, nil}, Free: check.Result.Remaining, Claim: claim}
}

// Release implements [waiting.Decider].
func (t turns) Release(held RunningUnits) { t.EndRunning([]limiter.Check{held.Check}) }

// HandOn implements [waiting.Decider].
func (t turns) HandOn(held RunningUnits, units int64) RunningUnits {
	check := &held.Check
	if unneeded := int64(check.State.RunningUnits) - units; unneeded > 0 {
		t.local.AddRunning(check, -unneeded)
		check.State.RunningUnits = int32(units)
		if t.shared != nil {
			t.shared.HandOn(check, units)
		}
	}
	check.Weight = units
	return held
}
