package kernel

// fixedWindow counts units in windows aligned to the Unix epoch: window k is [k*window,
// (k+1)*window). In any span of one window's length up to twice the limit can pass, around a
// boundary. Lua twin: scripts/fixed_window.lua.
//
// The state: a is the window's index, b the units counted in it.
type fixedWindow struct{}

// rolled returns the state as it stands now. A window that begins more than one window ahead of now
// was written by a broken clock and counts as none.
func (fixedWindow) rolled(s State, now int64, t *Params) (index, count int64) {
	index = now / t.Window
	if s.A >= index && s.A <= index+1 {
		return s.A, s.B
	}
	return index, 0
}

func (k fixedWindow) Decide(s State, now int64, t *Params, weight, reserve int64) Verdict {
	index, count := k.rolled(s, now, t)
	ends := (index+1)*t.Window - now
	v := Verdict{A: index}
	if weight == 0 || count+weight+reserve <= t.Limit {
		count += weight
	} else {
		v.Wait = ends
	}
	v.B = count
	v.Remaining = max(0, t.Limit-count)
	if count > 0 {
		v.Reset = ends
	}
	return v
}

func (fixedWindow) Take(_ State, _ *Params, v Verdict, _ bool) State {
	return State{Numbers: Numbers{A: v.A, B: v.B}}
}

// Refund subtracts the units if the receipt's window is the current one. The receipt is the
// window's index.
func (k fixedWindow) Refund(s State, now int64, t *Params, _, units int64, r Receipt) State {
	index, count := k.rolled(s, now, t)
	if index != r.First || count == 0 {
		return s
	}
	return State{Numbers: Numbers{A: index, B: max(0, count-units)}}
}

func (fixedWindow) Receipt(v Verdict) Receipt { return Receipt{First: v.A} }

// Lease takes units that end with their window at the latest: they count in the window that they are
// spent in.
func (k fixedWindow) Lease(s State, now int64, t *Params, weight, reserve int64, wish Wish) (Verdict, Lease, State) {
	return leaseInWindow(k, s, now, t, weight, reserve, wish, 0)
}

func (k fixedWindow) GiveBack(s State, now int64, t *Params, units int64, r Receipt) State {
	return k.Refund(s, now, t, units, units, r)
}

// Charge counts the weight in the current window.
func (k fixedWindow) Charge(s State, now int64, t *Params, weight int64) State {
	index, count := k.rolled(s, now, t)
	return State{Numbers: Numbers{A: index, B: addDebt(count, weight, MaxCharge/t.Window)}}
}

func (k fixedWindow) Owed(s, beyond State, now int64, t *Params) []Debt {
	index, count := k.rolled(s, now, t)
	if known, less := k.rolled(beyond, now, t); known == index {
		count -= less
	}
	if count < 1 {
		return nil
	}
	return []Debt{{index, count}}
}

// Repay adds units of the current window.
func (k fixedWindow) Repay(s State, now int64, t *Params, d Debt) (State, int64) {
	index, count := k.rolled(s, now, t)
	units := min(d.Amount, t.Limit-count)
	if index != d.At || units < 1 {
		return s, 0
	}
	return State{Numbers: Numbers{A: index, B: count + units}}, units
}

// RestoreState counts the units in the window that ends at the reset, at most the next one.
func (fixedWindow) RestoreState(used, resets, now int64, t *Params) State {
	return State{Numbers: Numbers{A: min(windowsBy(resets, t)-1, now/t.Window+1), B: used}}
}

func (fixedWindow) Expires(s State, _ int64, t *Params) int64 { return (s.A + 1) * t.Window }

func (fixedWindow) Describe(s State, _ int64, t *Params) map[string]any {
	return map[string]any{"window_begins": t.instant(s.A * t.Window), "units": s.B}
}
