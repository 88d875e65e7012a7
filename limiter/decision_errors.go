package limiter

import "errors"

// kindIncompatible is the kind of the errors of a server that cannot run the scripts.
const kindIncompatible = "incompatible"

// kindClock is the kind of the errors of calendar periods that are not around Redis's time.
const kindClock = "clock"

var (
	errTimeout  = &UndecidedError{Kind: "timeout", Err: errors.New("no answer within the timeout")}
	errUnsent   = &UndecidedError{Kind: "timeout", Err: errors.New("not sent within the timeout")}
	errOverload = &UndecidedError{Kind: "overload", Err: errors.New("too many requests wait for Redis")}
	errClosed   = &UndecidedError{Kind: "connection", Err: errors.New("the store is closed")}
)
