package kernel

// bucket is the one rule behind token_bucket, gcra and leaky_bucket: a debt that drains at `limit`
// units per window and may rise to the capacity. In a span x at most capacity + limit*x/window units
// pass. With a queue (max_delay) requests are admitted only if the debt before them drains within
// it, and are to be held until then. Lua twin: scripts/bucket.lua.
//
// The state is a level. A level with a serial is kept at least as long as a full bucket drains, so that a receipt never
// meets a serial that has begun anew. Refunds make holes in the level, which are of no use once the debt has drained.
type bucket struct{}

// level is the debt in 1/window units (so that a tick drains exactly `limit` of them), the tick that it was stored at,
// and the serial: units ever taken or charged, modulo 2^52. The first refundable take begins it at now in
// microseconds; 0 is none.
type level struct{ debt, at, serial int64 }

func levelOf(n Numbers) level { return level{n.A, n.B, n.C} }

func (l level) numbers() Numbers { return Numbers{l.debt, l.at, l.serial} }

// Serial returns the serial of a bucket's state.
func (s State) Serial() int64 { return levelOf(s.Numbers).serial }

// WithSerial returns a bucket's state with another serial.
func (s State) WithSerial(serial int64) State {
	l := levelOf(s.Numbers)
	l.serial = serial
	s.Numbers = l.numbers()
	return s
}

// passed returns a serial after some more units; no serial stays none.
func passed(serial, units int64) int64 {
	if serial == 0 {
		return 0
	}
	return (serial + units) & SerialMask
}

// drainedDebt returns what is left of a debt after some elapsed ticks.
func drainedDebt(debt, elapsed, limit int64) int64 {
	if elapsed >= CeilDiv(debt, limit) {
		return 0
	}
	return debt - elapsed*limit
}

// drained returns the level now, or at a later instant if the clock ran backwards. A debt
// stored further ahead than a full bucket takes to drain was written by a broken clock and counts as none.
func (*bucket) drained(s State, now int64, t *Params) level {
	l := levelOf(s.Numbers)
	if l.at-now > t.Full {
		return level{0, now, l.serial}
	}
	at := max(now, l.at)
	return level{drainedDebt(min(l.debt, t.MaxDebt), at-l.at, t.Limit), at, l.serial}
}

func (k *bucket) Decide(s State, now int64, t *Params, weight, reserve int64) (v Verdict) {
	l := k.drained(s, now, t)
	skew := l.at - now
	queued := t.MaxDelay != NoQueue
	delay, lead := int64(0), int64(0) // until the debt has drained, and with it the units for others
	if queued {
		delay, lead = CeilDiv(l.debt, t.Limit), CeilDiv(l.debt+max(0, reserve)*t.Window, t.Limit)
	}
	over := l.debt + (weight+reserve)*t.Window - t.Capacity*t.Window
	if l.serial == 0 {
		l.serial = now * t.Tick
	}
	l.serial = (l.serial + weight) & SerialMask
	switch {
	case weight == 0:
	case over <= 0 && (!queued || lead <= t.MaxDelay):
		l.debt += weight * t.Window
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
	v.Next = l.numbers()
	drains := CeilDiv(l.debt, t.Limit)
	if !queued || drains <= t.MaxDelay {
		v.Remaining = max(0, (t.Capacity*t.Window-l.debt)/t.Window)
	}
	v.BeyondQueue = queued && reserve > 0 && CeilDiv(l.debt+reserve*t.Window, t.Limit) > t.MaxDelay
	if l.debt > 0 {
		v.Reset = skew + drains
	}
	return v
}

// Take keeps the serial that there is; only a refundable take begins one.
func (*bucket) Take(s State, t *Params, v Verdict, refundable bool) State {
	before, next := s.Serial(), levelOf(v.Next)
	if before == 0 && !refundable {
		next.serial = 0
	}
	taken := State{Numbers: next.numbers()}
	if s.Holes != nil && next.debt > ((next.serial-before)&SerialMask)*t.Window {
		taken.Holes = s.Holes
	}
	return taken
}

// Refund subtracts at most the debt less the units that were taken since the take and not refunded: if the bucket was
// once empty meanwhile, the debt consists of those alone. The receipt is the tick of the take and the serial right
// after the take.
func (k *bucket) Refund(s State, now int64, t *Params, _, units int64, r Receipt) State {
	l := k.drained(s, now, t)
	if l.serial == 0 || l.debt == 0 || now-r.First >= t.Full {
		return s
	}
	ago, held := (l.serial-r.Second)&SerialMask, s.Holes.reversed(l.serial)
	since, newer, found := held.since(ago)
	if !found || since > l.debt/t.Window {
		return s
	}
	returned := min(units*t.Window, l.debt-since*t.Window)
	if returned <= 0 {
		return s
	}
	l.debt -= returned
	held = held.with(newer, ago, units, CeilDiv(l.debt, t.Window))
	return State{Numbers: l.numbers(), Holes: held.stored(l.serial)}
}

func (*bucket) Receipt(v Verdict) Receipt {
	next := levelOf(v.Next)
	return Receipt{First: next.at, Second: next.serial}
}

// Charge adds the weight to the debt. A debt that saturates loses the serial, because the units
// beyond it are nowhere. Nothing that was taken before can be refunded then.
func (k *bucket) Charge(s State, now int64, t *Params, weight int64) State {
	l := k.drained(s, now, t)
	if weight > (t.MaxDebt-l.debt)/t.Window {
		return State{Numbers: level{debt: t.MaxDebt, at: l.at}.numbers()}
	}
	next := level{l.debt + weight*t.Window, l.at, passed(l.serial, weight)}
	return State{Numbers: next.numbers(), Holes: s.Holes.after(l.debt)}
}

func (k *bucket) Owed(s, beyond State, now int64, t *Params) []Debt {
	owed := k.drained(s, now, t).debt - k.drained(beyond, now, t).debt
	if owed < t.Window {
		return nil
	}
	return []Debt{{0, owed}}
}

// Repay adds to the debt. The serial advances by a unit for every part of one, so that a refund never
// returns what was repaid.
func (k *bucket) Repay(s State, now int64, t *Params, d Debt) (State, int64) {
	l := k.drained(s, now, t)
	added := min(d.Amount, t.Capacity*t.Window-l.debt)
	if added < 1 {
		return s, 0
	}
	next := level{l.debt + added, l.at, passed(l.serial, CeilDiv(added, t.Window))}
	return State{Numbers: next.numbers(), Holes: s.Holes.after(l.debt)}, added / t.Window
}

// RestoreState returns the debt that drains by the reset: of a full bucket, or of one in debt beyond
// its capacity.
func (*bucket) RestoreState(_, resets, now int64, t *Params) State {
	l, drains := level{debt: t.MaxDebt, at: now}, resets-now
	switch {
	case drains <= t.Full:
		l.debt = min(drains*t.Limit, t.Capacity*t.Window)
	case drains <= t.MaxDebt/t.Limit:
		l.debt = drains * t.Limit
	}
	return State{Numbers: l.numbers()}
}

// RestoreBucket rebuilds a state as RestoreState does if the answer was to a request of another limit, by which the bucket
// would drain until the reset. The instant of the answer is known within the time of a unit: of the two ends of that
// time the one counts that leaves less by the limit of the next request.
func RestoreBucket(used, limit, resets, now int64, t *Params) State {
	drained := CeilDiv(used*t.Window, limit)
	if t.Limit > limit {
		drained = (used - 1) * t.Window / limit
	}
	l := level{debt: t.MaxDebt, at: min(resets-drained, now)}
	if drains := resets - l.at; drains <= t.MaxDebt/limit {
		l.debt = drains * limit
	}
	return State{Numbers: l.numbers()}
}

// Again is the reset less the time in which all units but those of the request drain, or but those before a queue.
func (*bucket) Again(reset int64, t *Params, weight, reserve int64) int64 {
	others := (t.Capacity - weight - reserve) * t.Window / t.Limit
	if t.MaxDelay != NoQueue {
		others = min(others, t.MaxDelay-CeilDiv(reserve*t.Window, t.Limit))
	}
	return reset - others
}

func (*bucket) Expires(s State, _ int64, t *Params) int64 {
	l := levelOf(s.Numbers)
	drains := CeilDiv(l.debt, t.Limit)
	if l.serial != 0 {
		drains = max(drains, t.Full)
	}
	return l.at + drains
}

func (*bucket) Describe(s State, _ int64, t *Params) map[string]any {
	l := levelOf(s.Numbers)
	return map[string]any{"units_owed": float64(l.debt) / float64(t.Window), "as_of": t.instant(l.at)}
}

// Lease takes units that may be spent until it ends. The debt counts as at least what drains until then,
// so that units that are spent right before its end have not drained by then.
func (k *bucket) Lease(s State, now int64, t *Params, weight, reserve int64, wish Wish) (Verdict, Lease, State) {
	v := k.Decide(s, now, t, weight, reserve)
	if v.Wait != 0 || t.MaxDelay != NoQueue {
		return v, Lease{}, s
	}
	wish = t.wishes(wish)
	next := levelOf(v.Next)
	raised := max(next.debt, wish.Lasts*t.Limit)
	l := Lease{Units: leasable((t.Capacity*t.Window-raised)/t.Window-reserve, wish.Units), Lasts: wish.Lasts}
	if weight+l.Units == 0 {
		return v, l, s
	}
	holes := s.Holes.after(next.debt - weight*t.Window)
	if l.Units > 0 {
		next.debt, next.serial = raised+l.Units*t.Window, (next.serial+l.Units)&SerialMask
		l.Receipt = Receipt{First: next.at, Second: next.serial}
	} else if s.Serial() == 0 {
		next.serial = 0
	}
	v.Next, v.Reset = next.numbers(), next.at-now+CeilDiv(next.debt, t.Limit)
	return v, l, State{Numbers: v.Next, Holes: holes}
}

// GiveBack returns at most what the debt is above the units granted since, and above what later leases
// have raised it by.
func (k *bucket) GiveBack(s State, now int64, t *Params, units int64, r Receipt) State {
	l := k.drained(s, now, t)
	if l.serial == 0 || now-r.First >= t.Full {
		return s
	}
	since := (l.serial - r.Second) & SerialMask
	if since > l.debt/t.Window {
		return s
	}
	returned := min(units*t.Window, l.debt-since*t.Window-t.LongestLease()*t.Limit)
	if returned <= 0 {
		return s
	}
	l.debt -= returned
	return State{Numbers: l.numbers(), Holes: s.Holes.after(l.debt)}
}
