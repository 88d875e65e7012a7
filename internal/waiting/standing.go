package waiting

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"

// Standing is what applies to a request that waits, which configurations and operators change: [Under], [Free] or [Blocked].
type Standing interface{ isStanding() }

// Under says that a policy decides, with the ID of the request's own and perhaps another limit.
type Under struct{ Policy *limiter.Policy }

// Free says that the request needs no units: it starts at once.
type Free struct {
	// Exempted says that an operator has exempted the request; otherwise the policy has no limit for it.
	Exempted bool
}

// Blocked says that the request is refused, with [ErrBlocked].
type Blocked struct{}

func (Under) isStanding()   {}
func (Free) isStanding()    {}
func (Blocked) isStanding() {}
