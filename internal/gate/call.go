package gate

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/jsonbody"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
)

// callBounds are what is read of the body of a call of JSON-RPC to refuse it. A client that sends its id later is refused
// without one.
var callBounds = requestbody.Bounds{Size: jsonbody.MaxCall, Within: time.Second}

// call returns the call of JSON-RPC in the request's body, for a refusal in its form. There is none where the body is not
// read within bounds.
func (x *Exchange) call() jsonbody.Call {
	if x.limiter.Bodies == nil {
		return jsonbody.Call{}
	}
	body := x.limiter.Bodies.Read(x.ResponseWriter, x.request, shareOf(x.request), callBounds)
	return jsonbody.ReadCall(body.Bytes())
}
