package limiter

import "time"

// concurrency counts the units of the requests that are running. A request takes its units when it
// passes, and [Failover.EndRunning] returns them when it ends: no time returns them, so the waits are
// hints. Lua twin: scripts/concurrency.lua, which counts for each node.
//
// The state: a is the units of the requests that run.
type concurrency struct{}

// runningHint is the RetryAfter of a denial and the ResetAfter of a quota in use, in microseconds:
// nothing says when a request will end.
const runningHint = int64(time.Second / time.Microsecond)

func (concurrency) decide(s state, _ int64, t *params, weight, reserve int64) verdict {
	v := verdict{a: s.a}
	if weight == 0 || s.a+weight+reserve <= t.limit {
		v.a += weight
	} else {
		v.wait = runningHint
	}
	v.remaining = max(0, t.limit-v.a)
	if v.a > 0 {
		v.reset = runningHint
	}
	return v
}

func (concurrency) take(_ state, _ *params, v verdict, _ bool) state {
	return state{numbers: numbers{a: v.a}}
}

// The units of a running request are returned when it ends, and neither refunded nor charged nor owed:
// each node states its own count by itself.
func (concurrency) receipt(verdict) receipt { return receipt{} }

func (concurrency) refund(s state, _ int64, _ *params, _, _ int64, _ receipt) state { return s }

func (concurrency) charge(s state, _ int64, _ *params, _ int64) state { return s }

func (concurrency) owed(state, state, int64, *params) []debt { return nil }

func (concurrency) repay(s state, _ int64, _ *params, _ debt) (state, int64) { return s, 0 }

func (concurrency) restoreState(int64, int64, int64, *params) state { return state{} }

func (concurrency) describe(s state, _ int64, _ *params) map[string]any {
	return map[string]any{"running": s.a}
}

// numbers appends the ID of this process, under which Redis counts what it runs.
func (concurrency) numbers(dst []int64, _, node int64, _ *params) []int64 { return append(dst, node) }

// expires returns an instant after all others while a request runs.
func (concurrency) expires(s state, now int64, _ *params) int64 {
	if s.a > 0 {
		return precision
	}
	return now
}
