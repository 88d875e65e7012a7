package limiter

// calendarWindow counts units in calendar periods. Where the nodes have one table of time zones, in any span
// of a period's length up to twice the limit can pass, around a boundary. Lua twin: scripts/calendar.lua.
//
// The state: a is the period's start, b the units counted in it, c its end.
type calendarWindow struct{}

// rolled returns the state as it stands now. A state is of the period whose start is nearest to its own,
// because nodes may have different tables. One of a period after the next was written by a broken clock and
// counts as none.
func (calendarWindow) rolled(s state, now int64, t *params) (start, count, end int64) {
	bounds := t.periods.Around(now)
	if i := bounds.Nearest(s.a); (i == 1 || i == 2) && s.numbers != (numbers{}) {
		return s.a, s.b, bounds[i+1]
	}
	return bounds[1], 0, bounds[2]
}

// isSame reports whether two starts are of the same period.
func (calendarWindow) isSame(start, other, now int64, t *params) bool {
	return t.periods.Around(now).Same(start, other)
}

func (k calendarWindow) decide(s state, now int64, t *params, weight, reserve int64) verdict {
	start, count, end := k.rolled(s, now, t)
	v := verdict{a: start, c: end}
	if weight == 0 || count+weight+reserve <= t.limit {
		count += weight
	} else {
		v.wait = end - now
	}
	v.b = count
	v.remaining = max(0, t.limit-count)
	if count > 0 {
		v.reset = end - now
	}
	return v
}

func (calendarWindow) take(_ state, _ *params, v verdict, _ bool) state {
	return state{numbers: numbers{a: v.a, b: v.b, c: v.c}}
}

// refund subtracts the units if the receipt's period is the current one. The receipt is the period's start.
func (k calendarWindow) refund(s state, now int64, t *params, _, units int64, r receipt) state {
	start, count, end := k.rolled(s, now, t)
	if count == 0 || !k.isSame(start, r.first, now, t) {
		return s
	}
	return state{numbers: numbers{a: start, b: max(0, count-units), c: end}}
}

func (calendarWindow) receipt(v verdict) receipt { return receipt{first: v.a} }

// charge counts the weight in the current period.
func (k calendarWindow) charge(s state, now int64, t *params, weight int64) state {
	start, count, end := k.rolled(s, now, t)
	return state{numbers: numbers{a: start, b: addDebt(count, weight, maxCharge), c: end}}
}

func (k calendarWindow) owed(s, beyond state, now int64, t *params) []debt {
	start, count, _ := k.rolled(s, now, t)
	if known, less, _ := k.rolled(beyond, now, t); k.isSame(known, start, now, t) {
		count -= less
	}
	if count < 1 {
		return nil
	}
	return []debt{{start, count}}
}

// repay adds units of the current period.
func (k calendarWindow) repay(s state, now int64, t *params, d debt) (state, int64) {
	start, count, end := k.rolled(s, now, t)
	units := min(d.amount, t.limit-count)
	if units < 1 || !k.isSame(start, d.at, now, t) {
		return s, 0
	}
	return state{numbers: numbers{a: start, b: count + units, c: end}}, units
}

// restoreState counts the units in the period whose end is nearest to the reset: this one or the next.
func (calendarWindow) restoreState(used, resets, now int64, t *params) state {
	bounds := t.periods.Around(now)
	if i := 2; resets-bounds[i] > bounds[i+1]-resets {
		return state{numbers: numbers{a: bounds[i], b: used, c: bounds[i+1]}}
	}
	return state{numbers: numbers{a: bounds[1], b: used, c: bounds[2]}}
}

func (calendarWindow) expires(s state, _ int64, _ *params) int64 { return s.c }

func (calendarWindow) describe(s state, _ int64, t *params) map[string]any {
	return map[string]any{"period_begins": t.instant(s.a), "units": s.b}
}

// numbers appends the bounds of the periods by Redis's clock.
func (calendarWindow) numbers(dst []int64, now, _ int64, t *params) []int64 {
	bounds := t.periods.Around(now)
	return append(dst, bounds[:]...)
}
