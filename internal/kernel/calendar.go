package kernel

// calendarWindow counts units in calendar periods. If the nodes have one table of time zones, in any span
// of a period's length up to twice the limit can pass, around a boundary. Lua twin: scripts/calendar.lua.
//
// The state is a period.
type calendarWindow struct{}

// period is the start of a calendar period, the units counted in it, and its end.
type period struct{ start, count, end int64 }

func periodOf(n Numbers) period { return period{n.A, n.B, n.C} }

func (p period) numbers() Numbers { return Numbers{p.start, p.count, p.end} }

func (p period) state() State { return State{Numbers: p.numbers()} }

// rolled returns the state at the instant now. A state is of the period whose start is nearest to its own,
// because nodes may have different tables. One of a period after the next was written by a broken clock and
// counts as none.
func (*calendarWindow) rolled(s State, now int64, t *Params) period {
	bounds, stored := t.Periods.Around(now), periodOf(s.Numbers)
	if i := bounds.nearest(stored.start); (i == 1 || i == 2) && stored != (period{}) {
		stored.end = bounds[i+1]
		return stored
	}
	return period{start: bounds[1], end: bounds[2]}
}

// isSame reports whether two starts are of the same period.
func (*calendarWindow) isSame(start, other, now int64, t *Params) bool {
	return t.Periods.Around(now).same(start, other)
}

func (k *calendarWindow) Decide(s State, now int64, t *Params, weight, reserve int64) (v Verdict) {
	p := k.rolled(s, now, t)
	if weight == 0 || p.count+weight+reserve <= t.Limit {
		p.count += weight
	} else {
		v.Wait = p.end - now
	}
	v.Next = p.numbers()
	v.Remaining = max(0, t.Limit-p.count)
	if p.count > 0 {
		v.Reset = p.end - now
	}
	return v
}

func (*calendarWindow) Take(_ State, _ *Params, v Verdict, _ bool) State {
	return State{Numbers: v.Next}
}

// Refund subtracts the units if the receipt's period is the current one. The receipt is the period's start.
func (k *calendarWindow) Refund(s State, now int64, t *Params, _, units int64, r Receipt) State {
	p := k.rolled(s, now, t)
	if p.count == 0 || !k.isSame(p.start, r.First, now, t) {
		return s
	}
	p.count = max(0, p.count-units)
	return p.state()
}

func (*calendarWindow) Receipt(v Verdict) Receipt { return Receipt{First: periodOf(v.Next).start} }

// Charge counts the weight in the current period.
func (k *calendarWindow) Charge(s State, now int64, t *Params, weight int64) State {
	p := k.rolled(s, now, t)
	p.count = addDebt(p.count, weight, MaxCharge)
	return p.state()
}

func (k *calendarWindow) Owed(s, beyond State, now int64, t *Params) []Debt {
	p := k.rolled(s, now, t)
	if known := k.rolled(beyond, now, t); k.isSame(known.start, p.start, now, t) {
		p.count -= known.count
	}
	if p.count < 1 {
		return nil
	}
	return []Debt{{p.start, p.count}}
}

// Repay adds units of the current period.
func (k *calendarWindow) Repay(s State, now int64, t *Params, d Debt) (State, int64) {
	p := k.rolled(s, now, t)
	units := min(d.Amount, t.Limit-p.count)
	if units < 1 || !k.isSame(p.start, d.At, now, t) {
		return s, 0
	}
	p.count += units
	return p.state(), units
}

// RestoreState counts the units in the period whose end is nearest to the reset: this one or the next.
func (*calendarWindow) RestoreState(used, resets, now int64, t *Params) State {
	bounds := t.Periods.Around(now)
	if i := 2; resets-bounds[i] > bounds[i+1]-resets {
		return period{bounds[i], used, bounds[i+1]}.state()
	}
	return period{bounds[1], used, bounds[2]}.state()
}

func (*calendarWindow) Expires(s State, _ int64, _ *Params) int64 { return periodOf(s.Numbers).end }

// Again ends with the period.
func (*calendarWindow) Again(reset int64, _ *Params, _, _ int64) int64 { return reset }

func (*calendarWindow) Describe(s State, _ int64, t *Params) map[string]any {
	p := periodOf(s.Numbers)
	return map[string]any{"period_begins": t.instant(p.start), "units": p.count}
}

// periodNumbers appends the bounds of the periods by Redis's clock.
func periodNumbers(dst []int64, now, _ int64, t *Params) []int64 {
	bounds := t.Periods.Around(now)
	return append(dst, bounds[:]...)
}
