package kernel

import "time"

// RunningAlgorithm counts the requests that run (limiter.Settings.MaxConcurrent). It has no window and no kernel: a
// request takes its units when it passes, and returns them when it ends. It is no algorithm to users.
var RunningAlgorithm = Algorithm{
	Name: "concurrency", Code: "n", Script: "concurrency",
	Numbers: func(dst []int64, _, node int64, _ *Params) []int64 { return append(dst, node) },
}

// WaitingAlgorithm counts the requests that run and has others wait for their units in turns, see [WaitingState]. It
// keeps states of its own, in which Redis has a claim beside the counts. One process alone decides as by RunningAlgorithm.
var WaitingAlgorithm = Algorithm{
	Name: RunningAlgorithm.Name, Code: "w", Script: "waiting", Numbers: RunningAlgorithm.Numbers,
}

// RunningHint is the RetryAfter of a denial and the ResetAfter of a quota in use, in microseconds:
// nothing says when a request will end.
const RunningHint = int64(time.Second / time.Microsecond)

// DecideRunning returns what a request of this weight would get that reserves units for others, beside the units of
// requests that run. Lua twin: scripts/concurrency.lua, which counts for each node.
func (p *Params) DecideRunning(running, weight, reserve int64) (v Verdict) {
	switch {
	case weight > 0 && weight > p.Limit-reserve:
		v.Wait = Never
	case weight > 0 && running+weight+reserve > p.Limit:
		v.Wait = RunningHint
	default:
		running += weight
	}
	v.Remaining = max(0, p.Limit-running)
	if running > 0 {
		v.Reset = RunningHint
	}
	return v
}
