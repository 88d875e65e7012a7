package kernel

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

// drainedDebt returns what is left of a debt after some elapsed ticks.
func drainedDebt(debt, elapsed, limit int64) int64 {
	if elapsed >= CeilDiv(debt, limit) {
		return 0
	}
	return debt - elapsed*limit
}

// drained returns the debt as it stands now, and the instant it stands for, which is later than now
// where the clock ran backwards. A state stored further ahead than a full bucket takes to drain was
// written by a broken clock and counts as none.
func (bucket) drained(s State, now int64, t *Params) (debt, at int64) {
	if s.B-now > t.Full {
		return 0, now
	}
	at = max(now, s.B)
	return drainedDebt(min(s.A, t.MaxDebt), at-s.B, t.Limit), at
}

func (k bucket) Decide(s State, now int64, t *Params, weight, reserve int64) Verdict {
	debt, at := k.drained(s, now, t)
	skew := at - now
	queued := t.MaxDelay >= 0
	delay, lead := int64(0), int64(0) // until the debt has drained, and with it the units for others
	if queued {
		delay, lead = CeilDiv(debt, t.Limit), CeilDiv(debt+reserve*t.Window, t.Limit)
	}
	over := debt + (weight+reserve)*t.Window - t.Capacity*t.Window
	serial := s.C
	if serial == 0 {
		serial = now * t.Tick
	}
	v := Verdict{B: at, C: (serial + weight) & SerialMask}
	switch {
	case weight == 0:
	case over <= 0 && (!queued || lead <= t.MaxDelay):
		debt += weight * t.Window
		if queued {
			v.Delay = delay
		}
	default:
		if over > 0 {
			v.Wait = skew + CeilDiv(over, t.Limit)
		}
		if queued {
			v.Wait = max(v.Wait, skew+(lead-t.MaxDelay))
		}
	}
	v.A = debt
	drains := CeilDiv(debt, t.Limit)
	if !queued || drains <= t.MaxDelay {
		v.Remaining = max(0, (t.Capacity*t.Window-debt)/t.Window)
	}
	if queued && reserve > 0 && CeilDiv(debt+reserve*t.Window, t.Limit) > t.MaxDelay {
		v.Remaining = BeyondQueue(v.Remaining)
	}
	if debt > 0 {
		v.Reset = skew + drains
	}
	return v
}

// Take keeps the serial that there is; only a refundable take begins one.
func (bucket) Take(s State, t *Params, v Verdict, refundable bool) State {
	if s.C == 0 && !refundable {
		v.C = 0
	}
	taken := State{Numbers: Numbers{v.A, v.B, v.C}}
	if s.Holes != nil && v.A > ((v.C-s.C)&SerialMask)*t.Window {
		taken.Holes = s.Holes
	}
	return taken
}

// Refund subtracts at most what the debt is above the units since the take, without the refunded ones
// of them. They alone would be left of it if the bucket had once been empty meanwhile. The receipt is
// the tick of the take and the serial right after it.
func (k bucket) Refund(s State, now int64, t *Params, _, units int64, r Receipt) State {
	debt, at := k.drained(s, now, t)
	if s.C == 0 || debt == 0 || now-r.First >= t.Full {
		return s
	}
	ago, held := (s.C-r.Second)&SerialMask, s.Holes.reversed(s.C)
	since, newer, found := held.since(ago)
	if !found || since > debt/t.Window {
		return s
	}
	returned := min(units*t.Window, debt-since*t.Window)
	if returned <= 0 {
		return s
	}
	debt -= returned
	held = held.with(newer, ago, units, CeilDiv(debt, t.Window))
	return State{Numbers: Numbers{debt, at, s.C}, Holes: held.stored(s.C)}
}

func (bucket) Receipt(v Verdict) Receipt { return Receipt{First: v.B, Second: v.C} }

// Charge adds the weight to the debt. A debt that saturates loses the serial, because the units
// beyond it are nowhere. Nothing that was taken before can be refunded then.
func (k bucket) Charge(s State, now int64, t *Params, weight int64) State {
	debt, at := k.drained(s, now, t)
	serial := s.C
	if serial != 0 {
		serial = (serial + weight) & SerialMask
	}
	if weight > (t.MaxDebt-debt)/t.Window {
		return State{Numbers: Numbers{A: t.MaxDebt, B: at}}
	}
	return State{Numbers: Numbers{debt + weight*t.Window, at, serial}, Holes: s.Holes.after(debt)}
}

func (k bucket) Owed(s, beyond State, now int64, t *Params) []Debt {
	more, _ := k.drained(s, now, t)
	less, _ := k.drained(beyond, now, t)
	if more-less < t.Window {
		return nil
	}
	return []Debt{{0, more - less}}
}

// Repay adds to the debt. The serial advances by a unit for every part of one, so that a refund never
// returns what was repaid.
func (k bucket) Repay(s State, now int64, t *Params, d Debt) (State, int64) {
	debt, at := k.drained(s, now, t)
	added := min(d.Amount, t.Capacity*t.Window-debt)
	if added < 1 {
		return s, 0
	}
	serial := s.C
	if serial != 0 {
		serial = (serial + CeilDiv(added, t.Window)) & SerialMask
	}
	return State{Numbers: Numbers{debt + added, at, serial}, Holes: s.Holes.after(debt)}, added / t.Window
}

// RestoreState returns the debt that drains by the reset: of a full bucket, or of one in debt beyond
// its capacity.
func (bucket) RestoreState(_, resets, now int64, t *Params) State {
	drains := resets - now
	switch {
	case drains <= t.Full:
		return State{Numbers: Numbers{A: min(drains*t.Limit, t.Capacity*t.Window), B: now}}
	case drains > t.MaxDebt/t.Limit:
		return State{Numbers: Numbers{A: t.MaxDebt, B: now}}
	}
	return State{Numbers: Numbers{A: drains * t.Limit, B: now}}
}

func (bucket) Expires(s State, _ int64, t *Params) int64 {
	drains := CeilDiv(s.A, t.Limit)
	if s.C != 0 {
		drains = max(drains, t.Full)
	}
	return s.B + drains
}

func (bucket) Describe(s State, _ int64, t *Params) map[string]any {
	return map[string]any{"units_owed": float64(s.A) / float64(t.Window), "as_of": t.instant(s.B)}
}

// Lease takes units that may be spent until it ends. The debt counts as at least what drains until then,
// so that units that are spent right before its end have not drained by then.
func (k bucket) Lease(s State, now int64, t *Params, weight, reserve int64, wish Wish) (Verdict, Lease, State) {
	v := k.Decide(s, now, t, weight, reserve)
	if v.Wait != 0 || t.MaxDelay >= 0 {
		return v, Lease{}, s
	}
	wish = t.wishes(wish)
	raised := max(v.A, wish.Lasts*t.Limit)
	l := Lease{Units: leasable((t.Capacity*t.Window-raised)/t.Window-reserve, wish.Units), Lasts: wish.Lasts}
	if weight+l.Units == 0 {
		return v, l, s
	}
	holes := s.Holes.after(v.A - weight*t.Window)
	if l.Units > 0 {
		v.A, v.C = raised+l.Units*t.Window, (v.C+l.Units)&SerialMask
		l.Receipt = k.Receipt(v)
	} else if s.C == 0 {
		v.C = 0
	}
	v.Reset = v.B - now + CeilDiv(v.A, t.Limit)
	return v, l, State{Numbers: Numbers{v.A, v.B, v.C}, Holes: holes}
}

// GiveBack returns at most what the debt is above the units granted since, and above what later leases
// have raised it by.
func (k bucket) GiveBack(s State, now int64, t *Params, units int64, r Receipt) State {
	debt, at := k.drained(s, now, t)
	if s.C == 0 || now-r.First >= t.Full {
		return s
	}
	since := (s.C - r.Second) & SerialMask
	if since > debt/t.Window {
		return s
	}
	returned := min(units*t.Window, debt-since*t.Window-t.LongestLease()*t.Limit)
	if returned <= 0 {
		return s
	}
	debt -= returned
	return State{Numbers: Numbers{debt, at, s.C}, Holes: s.Holes.after(debt)}
}
