package limiter

import "github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"

// The algorithms of [Settings].Algorithm.
const (
	SlidingWindowCounter = limiter.SlidingWindowCounter // two aligned windows estimate a sliding one; the default
	SlidingWindowLog     = limiter.SlidingWindowLog     // exact; keeps an entry per request
	FixedWindow          = limiter.FixedWindow          // aligned windows; up to twice the limit around a boundary
	TokenBucket          = limiter.TokenBucket          // refills steadily up to the burst
	LeakyBucket          = limiter.LeakyBucket          // as TokenBucket, by the level of what was taken
	GCRA                 = limiter.GCRA                 // as TokenBucket, by arrival times
)
