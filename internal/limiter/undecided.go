package limiter

import (
	"errors"
)

// KindIncompatible is the kind of the errors of a server that cannot run the scripts.
const KindIncompatible = "incompatible"

// KindClock is the kind of the errors of calendar periods that are not around Redis's time.
const KindClock = "clock"

// The errors of requests that Redis does not answer in time, or is not sent.
var (
	ErrTimeout  = &UndecidedError{Kind: "timeout", Err: errors.New("no answer within the timeout")}
	ErrUnsent   = &UndecidedError{Kind: "timeout", Err: errors.New("not sent within the timeout")}
	ErrOverload = &UndecidedError{Kind: "overload", Err: errors.New("too many requests wait for Redis")}
	ErrClosed   = &UndecidedError{Kind: "connection", Err: errors.New("the store is closed")}
)
