package limiter

// bucket is the one rule behind token_bucket, gcra and leaky_bucket: a debt that drains at `limit`
// units per window and may rise to the capacity. In a span x at most capacity + limit*x/window units
// pass. With a queue (max_delay) requests are admitted only if the debt before them drains within
// it, and are to be held until then. Lua twin: scripts/bucket.lua.
//
// The state: a is the debt in 1/window units (so that a tick drains exactly `limit` of them), b the
// tick that it was stored at.
type bucket struct{}

// drainedDebt returns what is left of a debt after some elapsed ticks.
func drainedDebt(debt, elapsed, limit int64) int64 {
	if elapsed >= ceilDiv(debt, limit) {
		return 0
	}
	return debt - elapsed*limit
}

// drained returns the debt as it stands now, and the instant it stands for, which is later than now
// where the clock ran backwards. A state stored further ahead than a full bucket takes to drain was
// written by a broken clock and counts as none.
func (bucket) drained(s state, now int64, t *params) (debt, at int64) {
	if s.b-now > ceilDiv(t.capacity*t.window, t.limit) {
		return 0, now
	}
	at = max(now, s.b)
	return drainedDebt(min(s.a, t.maxDebt), at-s.b, t.limit), at
}

func (k bucket) decide(s state, now int64, t *params, weight int64) verdict {
	debt, at := k.drained(s, now, t)
	skew := at - now
	queued := t.maxDelay >= 0
	delay := ceilDiv(debt, t.limit)
	over := debt + weight*t.window - t.capacity*t.window
	v := verdict{b: at}
	switch {
	case weight == 0:
	case over <= 0 && (!queued || delay <= t.maxDelay):
		debt += weight * t.window
		if queued {
			v.delay = delay
		}
	default:
		if over > 0 {
			v.wait = skew + ceilDiv(over, t.limit)
		}
		if queued {
			v.wait = max(v.wait, skew+delay-t.maxDelay)
		}
	}
	v.a = debt
	drains := ceilDiv(debt, t.limit)
	if !queued || drains <= t.maxDelay {
		v.remaining = max(0, (t.capacity*t.window-debt)/t.window)
	}
	if debt > 0 {
		v.reset = skew + drains
	}
	return v
}

func (bucket) take(_ state, _ *params, v verdict) state {
	return state{numbers: numbers{a: v.a, b: v.b}}
}

// refund subtracts what of the take has not drained yet, so that it never refunds more than was
// taken. The receipt is the tick of the take and the debt right after it.
func (k bucket) refund(s state, now int64, t *params, weight int64, r receipt) state {
	debt, at := k.drained(s, now, t)
	if debt == 0 {
		return s
	}
	undrained := drainedDebt(r.second, max(0, at-r.first), t.limit)
	return state{numbers: numbers{a: max(0, debt-min(weight*t.window, undrained)), b: at}}
}

func (bucket) receipt(v verdict) receipt { return receipt{first: v.b, second: v.a} }

// charge adds the weight to the debt.
func (k bucket) charge(s state, now int64, t *params, weight int64) state {
	debt, at := k.drained(s, now, t)
	if weight > (t.maxDebt-debt)/t.window {
		return state{numbers: numbers{a: t.maxDebt, b: at}}
	}
	return state{numbers: numbers{a: debt + weight*t.window, b: at}}
}

// restoreState returns the debt that drains by the reset: of a full bucket, or of one in debt beyond
// its capacity.
func (bucket) restoreState(_, resets, now int64, t *params) state {
	full, drains := t.capacity*t.window, resets-now
	switch {
	case drains <= ceilDiv(full, t.limit):
		return state{numbers: numbers{a: min(drains*t.limit, full), b: now}}
	case drains > t.maxDebt/t.limit:
		return state{numbers: numbers{a: t.maxDebt, b: now}}
	}
	return state{numbers: numbers{a: drains * t.limit, b: now}}
}

func (bucket) expires(s state, _ int64, t *params) int64 { return s.b + ceilDiv(s.a, t.limit) }

func (bucket) describe(s state, _ int64, t *params) map[string]any {
	return map[string]any{"units_owed": float64(s.a) / float64(t.window), "as_of": t.instant(s.b)}
}
