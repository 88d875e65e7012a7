// Package limiter says what a check, a policy, a result and a store are, and what every store does with them. Stores decide
// whether a client may make a request now, and if not, when.
//
// A request has a few checks, one per policy that it meets. A [Store] charges all of them or none.
// The stores are packages of their own: internal/memory keeps its counts in this process, internal/redis in a
// Redis that any number of processes use, and internal/failover puts memory behind a Redis for outages. All of
// them give the same answers to the last microsecond. The formulas stand in internal/kernel, the Lua
// twins in scripts/. This package may import the kernel alone.
package limiter

import "context"

// Store decides requests.
type Store interface {
	// Decide decides the checks together: all of them are charged if all pass, otherwise none. It
	// fills in their results. An error means that there is no decision: it wraps [ErrUndecided] if
	// the store could not decide, so that the request was charged at most once; [ErrInvalidCheck] if
	// the checks are wrong; or it is the context's. Decide does not keep the slice.
	Decide(ctx context.Context, checks []Check) (Source, error)
}

// FailMode says how a request is decided when the shared store cannot decide.
type FailMode string

// The fail modes.
const (
	FailLocal  FailMode = "local"  // this process decides by the same policies
	FailOpen   FailMode = "open"   // the request is let through
	FailClosed FailMode = "closed" // the request is refused
)

// FailModes lists them, the default first.
func FailModes() []FailMode { return []FailMode{FailLocal, FailOpen, FailClosed} }
