package gate

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
)

// callBounds are what is read of the body of a call of JSON-RPC to refuse it. A client that sends its id later is refused
// without one.
var callBounds = requestbody.Bounds{Size: bodyvalue.MaxCall, Within: time.Second}

// call returns the call of JSON-RPC in the request's body, for a refusal in its form. There is none where the body is not
// read within bounds.
func (x *Exchange) call() bodyvalue.Call {
	if x.limiter.Bodies == nil {
		return bodyvalue.Call{}
	}
	body := x.limiter.Bodies.Read(x.ResponseWriter, x.request, shareOf(x.request), callBounds)
	return bodyvalue.ReadCall(body.Bytes())
}
