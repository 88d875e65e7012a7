package crawlers

import (
	"math"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
)

// bucket bounds the rate of look-ups. Resolvers of clouds bound a host, whose own names would fail with those of a flood.
type bucket struct {
	units  float64
	filled clock.Moment
}

const (
	rate  = 200 // look-ups a second
	burst = 64
)

// take takes a unit, or returns how long to wait for the next one.
func (b *bucket) take(now clock.Moment) (wait time.Duration) {
	if past := now.Since(b.filled); past > 0 {
		b.units, b.filled = math.Min(burst, b.units+past.Seconds()*rate), now
	}
	if b.units < 1 {
		return max(time.Microsecond, time.Duration((1-b.units)/rate*float64(time.Second)))
	}
	b.units--
	return 0
}
