package limiter

// bucket is the one rule behind token_bucket, gcra and leaky_bucket: a debt that drains at `limit`
// units per window and may rise to the capacity. In a span x at most capacity + limit*x/window units
// pass. With a queue (max_delay) requests are admitted only if the debt before them drains within
// it, and are to be held until then. Lua twin: scripts/bucket.lua.
//
// The state: a is the debt in 1/window units (so that a tick drains exactly `limit` of them), b the
// tick that it was stored at, c the serial: units ever taken or charged, modulo 2^52. The first
// refundable take begins it at now in microseconds; 0 is none. A state with a serial lives at least as long
// as a full bucket drains, so that a receipt never meets a serial that has begun anew. Refunds of it
// make holes, which are of no use once the debt has drained.
type bucket struct{}

// serialMask takes a serial modulo 2^52, below which Lua counts exactly.
const serialMask = 1<<52 - 1

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
	if s.b-now > t.full {
		return 0, now
	}
	at = max(now, s.b)
	return drainedDebt(min(s.a, t.maxDebt), at-s.b, t.limit), at
}

func (k bucket) decide(s state, now int64, t *params, weight, reserve int64) verdict {
	debt, at := k.drained(s, now, t)
	skew := at - now
	queued := t.maxDelay >= 0
	delay, lead := int64(0), int64(0) // until the debt has drained, and with it the units for others
	if queued {
		delay, lead = ceilDiv(debt, t.limit), ceilDiv(debt+reserve*t.window, t.limit)
	}
	over := debt + (weight+reserve)*t.window - t.capacity*t.window
	serial := s.c
	if serial == 0 {
		serial = now * t.tick
	}
	v := verdict{b: at, c: (serial + weight) & serialMask}
	switch {
	case weight == 0:
	case over <= 0 && (!queued || lead <= t.maxDelay):
		debt += weight * t.window
		if queued {
			v.delay = delay
		}
	default:
		if over > 0 {
			v.wait = skew + ceilDiv(over, t.limit)
		}
		if queued {
			v.wait = max(v.wait, skew+(lead-t.maxDelay))
		}
	}
	v.a = debt
	drains := ceilDiv(debt, t.limit)
	if !queued || drains <= t.maxDelay {
		v.remaining = max(0, (t.capacity*t.window-debt)/t.window)
	}
	if queued && reserve > 0 && ceilDiv(debt+reserve*t.window, t.limit) > t.maxDelay {
		v.remaining = beyondQueue(v.remaining)
	}
	if debt > 0 {
		v.reset = skew + drains
	}
	return v
}

// take keeps the serial that there is; only a refundable take begins one.
func (bucket) take(s state, t *params, v verdict, refundable bool) state {
	if s.c == 0 && !refundable {
		v.c = 0
	}
	taken := state{numbers: numbers{v.a, v.b, v.c}}
	if s.holes != nil && v.a > ((v.c-s.c)&serialMask)*t.window {
		taken.holes = s.holes
	}
	return taken
}

// refund subtracts at most what the debt is above the units since the take, without the refunded ones
// of them. They alone would be left of it if the bucket had once been empty meanwhile. The receipt is
// the tick of the take and the serial right after it.
func (k bucket) refund(s state, now int64, t *params, _, units int64, r receipt) state {
	debt, at := k.drained(s, now, t)
	if s.c == 0 || debt == 0 || now-r.first >= t.full {
		return s
	}
	ago, held := (s.c-r.second)&serialMask, s.holes.reversed(s.c)
	since, newer, found := held.since(ago)
	if !found || since > debt/t.window {
		return s
	}
	returned := min(units*t.window, debt-since*t.window)
	if returned <= 0 {
		return s
	}
	debt -= returned
	held = held.with(newer, ago, units, ceilDiv(debt, t.window))
	return state{numbers: numbers{debt, at, s.c}, holes: held.stored(s.c)}
}

func (bucket) receipt(v verdict) receipt { return receipt{first: v.b, second: v.c} }

// charge adds the weight to the debt. A debt that saturates loses the serial, because the units
// beyond it are nowhere. Nothing that was taken before can be refunded then.
func (k bucket) charge(s state, now int64, t *params, weight int64) state {
	debt, at := k.drained(s, now, t)
	serial := s.c
	if serial != 0 {
		serial = (serial + weight) & serialMask
	}
	if weight > (t.maxDebt-debt)/t.window {
		return state{numbers: numbers{a: t.maxDebt, b: at}}
	}
	return state{numbers: numbers{debt + weight*t.window, at, serial}, holes: s.holes.after(debt)}
}

func (k bucket) owed(s, beyond state, now int64, t *params) []debt {
	more, _ := k.drained(s, now, t)
	less, _ := k.drained(beyond, now, t)
	if more-less < t.window {
		return nil
	}
	return []debt{{0, more - less}}
}

// repay adds to the debt. The serial advances by a unit for every part of one, so that a refund never
// returns what was repaid.
func (k bucket) repay(s state, now int64, t *params, d debt) (state, int64) {
	debt, at := k.drained(s, now, t)
	added := min(d.amount, t.capacity*t.window-debt)
	if added < 1 {
		return s, 0
	}
	serial := s.c
	if serial != 0 {
		serial = (serial + ceilDiv(added, t.window)) & serialMask
	}
	return state{numbers: numbers{debt + added, at, serial}, holes: s.holes.after(debt)}, added / t.window
}

// restoreState returns the debt that drains by the reset: of a full bucket, or of one in debt beyond
// its capacity.
func (bucket) restoreState(_, resets, now int64, t *params) state {
	drains := resets - now
	switch {
	case drains <= t.full:
		return state{numbers: numbers{a: min(drains*t.limit, t.capacity*t.window), b: now}}
	case drains > t.maxDebt/t.limit:
		return state{numbers: numbers{a: t.maxDebt, b: now}}
	}
	return state{numbers: numbers{a: drains * t.limit, b: now}}
}

func (bucket) expires(s state, _ int64, t *params) int64 {
	drains := ceilDiv(s.a, t.limit)
	if s.c != 0 {
		drains = max(drains, t.full)
	}
	return s.b + drains
}

func (bucket) describe(s state, _ int64, t *params) map[string]any {
	return map[string]any{"units_owed": float64(s.a) / float64(t.window), "as_of": t.instant(s.b)}
}

// lease takes units that may be spent until it ends. The debt counts as at least what drains until then,
// so that units that are spent right before its end have not drained by then.
func (k bucket) lease(s state, now int64, t *params, weight, reserve int64, wish leaseWish) (verdict, lease, state) {
	v := k.decide(s, now, t, weight, reserve)
	if v.wait != 0 || t.maxDelay >= 0 {
		return v, lease{}, s
	}
	wish = t.wishes(wish)
	raised := max(v.a, wish.lasts*t.limit)
	l := lease{units: leasable((t.capacity*t.window-raised)/t.window-reserve, wish.units), lasts: wish.lasts}
	if weight+l.units == 0 {
		return v, l, s
	}
	holes := s.holes.after(v.a - weight*t.window)
	if l.units > 0 {
		v.a, v.c = raised+l.units*t.window, (v.c+l.units)&serialMask
		l.receipt = k.receipt(v)
	} else if s.c == 0 {
		v.c = 0
	}
	v.reset = v.b - now + ceilDiv(v.a, t.limit)
	return v, l, state{numbers: numbers{v.a, v.b, v.c}, holes: holes}
}

// giveBack returns at most what the debt is above the units granted since, and above what later leases
// have raised it by.
func (k bucket) giveBack(s state, now int64, t *params, units int64, r receipt) state {
	debt, at := k.drained(s, now, t)
	if s.c == 0 || now-r.first >= t.full {
		return s
	}
	since := (s.c - r.second) & serialMask
	if since > debt/t.window {
		return s
	}
	returned := min(units*t.window, debt-since*t.window-t.longestLease()*t.limit)
	if returned <= 0 {
		return s
	}
	debt -= returned
	return state{numbers: numbers{debt, at, s.c}, holes: s.holes.after(debt)}
}
