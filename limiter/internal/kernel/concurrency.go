package kernel

import "time"

// concurrency counts the units of the requests that are running. A request takes its units when it
// passes, and failover.Store.EndRunning returns them when it ends: no time returns them, so the waits are
// hints. Lua twin: scripts/concurrency.lua, which counts for each node.
//
// The state: a is the units of the requests that run.
type concurrency struct{}

// RunningHint is the RetryAfter of a denial and the ResetAfter of a quota in use, in microseconds:
// nothing says when a request will end.
const RunningHint = int64(time.Second / time.Microsecond)

func (concurrency) Decide(s State, _ int64, t *Params, weight, reserve int64) Verdict {
	v := Verdict{A: s.A}
	if weight == 0 || s.A+weight+reserve <= t.Limit {
		v.A += weight
	} else {
		v.Wait = RunningHint
	}
	v.Remaining = max(0, t.Limit-v.A)
	if v.A > 0 {
		v.Reset = RunningHint
	}
	return v
}

func (concurrency) Take(_ State, _ *Params, v Verdict, _ bool) State {
	return State{Numbers: Numbers{A: v.A}}
}

// The units of a running request are returned when it ends, and neither refunded nor charged nor owed:
// each node states its own count by itself.
func (concurrency) Receipt(Verdict) Receipt { return Receipt{} }

func (concurrency) Refund(s State, _ int64, _ *Params, _, _ int64, _ Receipt) State { return s }

func (concurrency) Charge(s State, _ int64, _ *Params, _ int64) State { return s }

func (concurrency) Owed(State, State, int64, *Params) []Debt { return nil }

func (concurrency) Repay(s State, _ int64, _ *Params, _ Debt) (State, int64) { return s, 0 }

func (concurrency) RestoreState(int64, int64, int64, *Params) State { return State{} }

func (concurrency) Describe(s State, _ int64, _ *Params) map[string]any {
	return map[string]any{"running": s.A}
}

// Numbers appends the ID of this process, under which Redis counts what it runs.
func (concurrency) Numbers(dst []int64, _, node int64, _ *Params) []int64 { return append(dst, node) }

// Expires returns an instant after all others while a request runs.
func (concurrency) Expires(s State, now int64, _ *Params) int64 {
	if s.A > 0 {
		return Precision
	}
	return now
}
