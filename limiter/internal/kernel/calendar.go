package kernel

// calendarWindow counts units in calendar periods. Where the nodes have one table of time zones, in any span
// of a period's length up to twice the limit can pass, around a boundary. Lua twin: scripts/calendar.lua.
//
// The state: a is the period's start, b the units counted in it, c its end.
type calendarWindow struct{}

// rolled returns the state as it stands now. A state is of the period whose start is nearest to its own,
// because nodes may have different tables. One of a period after the next was written by a broken clock and
// counts as none.
func (calendarWindow) rolled(s State, now int64, t *Params) (start, count, end int64) {
	bounds := t.Periods.Around(now)
	if i := bounds.Nearest(s.A); (i == 1 || i == 2) && s.Numbers != (Numbers{}) {
		return s.A, s.B, bounds[i+1]
	}
	return bounds[1], 0, bounds[2]
}

// isSame reports whether two starts are of the same period.
func (calendarWindow) isSame(start, other, now int64, t *Params) bool {
	return t.Periods.Around(now).Same(start, other)
}

func (k calendarWindow) Decide(s State, now int64, t *Params, weight, reserve int64) Verdict {
	start, count, end := k.rolled(s, now, t)
	v := Verdict{A: start, C: end}
	if weight == 0 || count+weight+reserve <= t.Limit {
		count += weight
	} else {
		v.Wait = end - now
	}
	v.B = count
	v.Remaining = max(0, t.Limit-count)
	if count > 0 {
		v.Reset = end - now
	}
	return v
}

func (calendarWindow) Take(_ State, _ *Params, v Verdict, _ bool) State {
	return State{Numbers: Numbers{A: v.A, B: v.B, C: v.C}}
}

// Refund subtracts the units if the receipt's period is the current one. The receipt is the period's start.
func (k calendarWindow) Refund(s State, now int64, t *Params, _, units int64, r Receipt) State {
	start, count, end := k.rolled(s, now, t)
	if count == 0 || !k.isSame(start, r.First, now, t) {
		return s
	}
	return State{Numbers: Numbers{A: start, B: max(0, count-units), C: end}}
}

func (calendarWindow) Receipt(v Verdict) Receipt { return Receipt{First: v.A} }

// Charge counts the weight in the current period.
func (k calendarWindow) Charge(s State, now int64, t *Params, weight int64) State {
	start, count, end := k.rolled(s, now, t)
	return State{Numbers: Numbers{A: start, B: addDebt(count, weight, MaxCharge), C: end}}
}

func (k calendarWindow) Owed(s, beyond State, now int64, t *Params) []Debt {
	start, count, _ := k.rolled(s, now, t)
	if known, less, _ := k.rolled(beyond, now, t); k.isSame(known, start, now, t) {
		count -= less
	}
	if count < 1 {
		return nil
	}
	return []Debt{{start, count}}
}

// Repay adds units of the current period.
func (k calendarWindow) Repay(s State, now int64, t *Params, d Debt) (State, int64) {
	start, count, end := k.rolled(s, now, t)
	units := min(d.Amount, t.Limit-count)
	if units < 1 || !k.isSame(start, d.At, now, t) {
		return s, 0
	}
	return State{Numbers: Numbers{A: start, B: count + units, C: end}}, units
}

// RestoreState counts the units in the period whose end is nearest to the reset: this one or the next.
func (calendarWindow) RestoreState(used, resets, now int64, t *Params) State {
	bounds := t.Periods.Around(now)
	if i := 2; resets-bounds[i] > bounds[i+1]-resets {
		return State{Numbers: Numbers{A: bounds[i], B: used, C: bounds[i+1]}}
	}
	return State{Numbers: Numbers{A: bounds[1], B: used, C: bounds[2]}}
}

func (calendarWindow) Expires(s State, _ int64, _ *Params) int64 { return s.C }

func (calendarWindow) Describe(s State, _ int64, t *Params) map[string]any {
	return map[string]any{"period_begins": t.instant(s.A), "units": s.B}
}

// periodNumbers appends the bounds of the periods by Redis's clock.
func periodNumbers(dst []int64, now, _ int64, t *Params) []int64 {
	bounds := t.Periods.Around(now)
	return append(dst, bounds[:]...)
}
