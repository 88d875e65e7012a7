package kernel

// fixedWindow counts units in windows aligned to the Unix epoch: window k is [k*window,
// (k+1)*window). In any span of one window's length up to twice the limit can pass, around a
// boundary. Lua twin: scripts/fixed_window.lua.
//
// The state is a window without a previous one.
type fixedWindow struct{}

// rolled returns the state at the instant now. A window that begins more than one window ahead of now
// was written by a broken clock and counts as none.
func (*fixedWindow) rolled(s State, now int64, t *Params) window {
	index, stored := now/t.Window, windowOf(s.Numbers)
	if stored.index >= index && stored.index <= index+1 {
		return window{index: stored.index, count: stored.count}
	}
	return window{index: index}
}

func (k *fixedWindow) Decide(s State, now int64, t *Params, weight, reserve int64) (v Verdict) {
	w := k.rolled(s, now, t)
	ends := (w.index+1)*t.Window - now
	if weight == 0 || w.count+weight+reserve <= t.Limit {
		w.count += weight
	} else {
		v.Wait = ends
	}
	v.Next = w.numbers()
	v.Remaining = max(0, t.Limit-w.count)
	if w.count > 0 {
		v.Reset = ends
	}
	return v
}

func (*fixedWindow) Take(_ State, _ *Params, v Verdict, _ bool) State { return State{Numbers: v.Next} }

// Refund subtracts the units if the receipt's window is the current one. The receipt is the
// window's index.
func (k *fixedWindow) Refund(s State, now int64, t *Params, _, units int64, r Receipt) State {
	w := k.rolled(s, now, t)
	if w.index != r.First || w.count == 0 {
		return s
	}
	w.count = max(0, w.count-units)
	return w.state()
}

func (*fixedWindow) Receipt(v Verdict) Receipt { return Receipt{First: windowOf(v.Next).index} }

// Lease takes units that end with their window at the latest: they count in the window that they are
// spent in.
func (k *fixedWindow) Lease(s State, now int64, t *Params, weight, reserve int64, wish Wish) (Verdict, Lease, State) {
	return leaseInWindow(k, s, now, t, weight, reserve, wish, 0)
}

func (k *fixedWindow) GiveBack(s State, now int64, t *Params, units int64, r Receipt) State {
	return k.Refund(s, now, t, units, units, r)
}

// Charge counts the weight in the current window.
func (k *fixedWindow) Charge(s State, now int64, t *Params, weight int64) State {
	w := k.rolled(s, now, t)
	w.count = addDebt(w.count, weight, MaxCharge/t.Window)
	return w.state()
}

func (k *fixedWindow) Owed(s, beyond State, now int64, t *Params) []Debt {
	w := k.rolled(s, now, t)
	if known := k.rolled(beyond, now, t); known.index == w.index {
		w.count -= known.count
	}
	if w.count < 1 {
		return nil
	}
	return []Debt{{w.index, w.count}}
}

// Repay adds units of the current window.
func (k *fixedWindow) Repay(s State, now int64, t *Params, d Debt) (State, int64) {
	w := k.rolled(s, now, t)
	units := min(d.Amount, t.Limit-w.count)
	if w.index != d.At || units < 1 {
		return s, 0
	}
	w.count += units
	return w.state(), units
}

// RestoreState counts the units in the window that ends at the reset, at most the next one.
func (*fixedWindow) RestoreState(used, resets, now int64, t *Params) State {
	return window{index: min(windowsBy(resets, t)-1, now/t.Window+1), count: used}.state()
}

func (*fixedWindow) Expires(s State, _ int64, t *Params) int64 {
	return (windowOf(s.Numbers).index + 1) * t.Window
}

// Again ends with the window.
func (*fixedWindow) Again(reset int64, _ *Params, _, _ int64) int64 { return reset }

func (*fixedWindow) Describe(s State, _ int64, t *Params) map[string]any {
	w := windowOf(s.Numbers)
	return map[string]any{"window_begins": t.instant(w.index * t.Window), "units": w.count}
}
