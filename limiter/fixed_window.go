package limiter

// fixedWindow counts units in windows aligned to the Unix epoch: window k is [k*window,
// (k+1)*window). In any span of one window's length up to twice the limit can pass, around a
// boundary. Lua twin: scripts/fixed_window.lua.
//
// The state: a is the window's index, b the units counted in it.
type fixedWindow struct{}

// rolled returns the state as it stands now. A window that begins more than one window ahead of now
// was written by a broken clock and counts as none.
func (fixedWindow) rolled(s state, now int64, t *params) (index, count int64) {
	index = now / t.window
	if s.a >= index && s.a <= index+1 {
		return s.a, s.b
	}
	return index, 0
}

func (k fixedWindow) decide(s state, now int64, t *params, weight, reserve int64) verdict {
	index, count := k.rolled(s, now, t)
	ends := (index+1)*t.window - now
	v := verdict{a: index}
	if weight == 0 || count+weight+reserve <= t.limit {
		count += weight
	} else {
		v.wait = ends
	}
	v.b = count
	v.remaining = max(0, t.limit-count)
	if count > 0 {
		v.reset = ends
	}
	return v
}

func (fixedWindow) take(_ state, _ *params, v verdict, _ bool) state {
	return state{numbers: numbers{a: v.a, b: v.b}}
}

// refund subtracts the units if the receipt's window is the current one. The receipt is the
// window's index.
func (k fixedWindow) refund(s state, now int64, t *params, _, units int64, r receipt) state {
	index, count := k.rolled(s, now, t)
	if index != r.first || count == 0 {
		return s
	}
	return state{numbers: numbers{a: index, b: max(0, count-units)}}
}

func (fixedWindow) receipt(v verdict) receipt { return receipt{first: v.a} }

// lease takes units that end with their window at the latest: they count in the window that they are
// spent in.
func (k fixedWindow) lease(s state, now int64, t *params, weight, reserve int64, wish leaseWish) (verdict, lease, state) {
	return leaseInWindow(k, s, now, t, weight, reserve, wish, 0)
}

func (k fixedWindow) giveBack(s state, now int64, t *params, units int64, r receipt) state {
	return k.refund(s, now, t, units, units, r)
}

// charge counts the weight in the current window.
func (k fixedWindow) charge(s state, now int64, t *params, weight int64) state {
	index, count := k.rolled(s, now, t)
	return state{numbers: numbers{a: index, b: addDebt(count, weight, maxCharge/t.window)}}
}

func (k fixedWindow) owed(s, beyond state, now int64, t *params) []debt {
	index, count := k.rolled(s, now, t)
	if known, less := k.rolled(beyond, now, t); known == index {
		count -= less
	}
	if count < 1 {
		return nil
	}
	return []debt{{index, count}}
}

// repay adds units of the current window.
func (k fixedWindow) repay(s state, now int64, t *params, d debt) (state, int64) {
	index, count := k.rolled(s, now, t)
	units := min(d.amount, t.limit-count)
	if index != d.at || units < 1 {
		return s, 0
	}
	return state{numbers: numbers{a: index, b: count + units}}, units
}

// restoreState counts the units in the window that ends at the reset, at most the next one.
func (fixedWindow) restoreState(used, resets, now int64, t *params) state {
	return state{numbers: numbers{a: min(windowsBy(resets, t)-1, now/t.window+1), b: used}}
}

func (fixedWindow) expires(s state, _ int64, t *params) int64 { return (s.a + 1) * t.window }

func (fixedWindow) describe(s state, _ int64, t *params) map[string]any {
	return map[string]any{"window_begins": t.instant(s.a * t.window), "units": s.b}
}
