package redis

import (
	"context"
	"errors"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// ErrForgotten says that Redis has forgotten what this process runs of a key, and perhaps what others run. It has taken
// nothing, and is told soon.
var ErrForgotten = errors.New("redis has forgotten what this process runs")

// DecideTurn decides the check of a request that waits, by a policy whose requests may. It waits for Redis as Decide does,
// and the check's units are returned as those of Decide are.
// The error is [ErrForgotten] where Redis has lost its data.
func (r *Store) DecideTurn(ctx context.Context, check *limiter.Check, turn *kernel.Turn) (a TurnAnswer, err error) {
	if !r.Uses.Acquire() {
		return a, limiter.ErrClosed
	}
	defer r.Uses.Release()
	checks := [1]limiter.Check{*check}
	n, slot := r.NodeOf(check.Key)
	err = r.decideRunning(ctx, n, OpTake, slot, checks[:], turn)
	*check = checks[0]
	if errors.Is(err, ErrLate) && check.State.Late == kernel.Lost {
		return a, ErrForgotten
	}
	if err == nil {
		a = takeTurnAnswer(check)
	}
	return a, err
}

// HandOn has a request that starts take over the units of one that ends, and returns those that it does not need. The check
// is that of the ending request, as its decision has left it; afterwards that of the other one.
func (r *Store) HandOn(check *limiter.Check, units int64) {
	m := RunOf(check)
	if m == nil || m.Units <= units {
		return
	}
	check.State.Owner, check.State.RunningUnits = &Run{Record: m.Record, Units: units}, int32(units)
	r.Running.release(Run{Record: m.Record, Units: m.Units - units})
}

// TurnAnswer is what Redis tells of turns, with the decision about a request that waits.
type TurnAnswer struct {
	TurnAge time.Duration // of the request's turn, by all that Redis knows
	Foreign time.Duration // the age of another node's claim, at least 1 µs; 0: there is none
}

// takeTurnAnswer takes what Redis tells of turns out of the result of a take that waits: the script answers with the age of
// its turn as the reset, and with that of the other claim as the delay.
func takeTurnAnswer(c *limiter.Check) TurnAnswer {
	a := TurnAnswer{c.Result.ResetAfter, c.Result.Delay}
	c.Result.ResetAfter, c.Result.Delay = limiter.Duration(kernel.RunningHint), 0
	return a
}
