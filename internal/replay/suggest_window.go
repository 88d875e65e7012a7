package replay

import (
	"fmt"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
)

// windowColumn tries an algorithm that counts units in aligned windows. Its demand does not depend on the limit,
// and its state is a few numbers.
type windowColumn struct {
	ladder   *ladder
	policies []*limiter.Policy // limit by limit
	tick     int64             // microseconds of the policies' clock to a tick of the ladder
	keys     []windowKey
}

// windowKey is one key: the state of all limits that have admitted everything, and the states of the others.
type windowKey struct {
	admitted memory.State
	below    []memory.State // without the highest limit, whose state is admitted
	most     int64          // peak demand
}

// newWindowColumn creates a policy for each limit. A tick of the ladder is one microsecond of these policies,
// but for those that count in calendar periods, which have their place in time.
func newWindowColumn(l *ladder, s limiter.Settings) (*windowColumn, error) {
	c := &windowColumn{ladder: l, tick: 1}
	if s.Calendar != "" {
		c.tick = l.tick
	} else {
		s.Window = time.Duration(l.window) * time.Microsecond
	}
	s.Name = "suggested"
	for _, limit := range l.limits {
		s.Limit = limit
		p, err := limiter.NewPolicy(s)
		if err != nil {
			return nil, fmt.Errorf("trying %s: %w", s.Algorithm, err)
		}
		c.policies = append(c.policies, p)
	}
	return c, nil
}

func (c *windowColumn) grow() { c.keys = append(c.keys, windowKey{}) }

func (c *windowColumn) peak(key int) int64 { return c.keys[key].most }

func (c *windowColumn) add(key int, at, weight int64, returned bool) (denied uint64) {
	k, top := &c.keys[key], len(c.policies)-1
	before := k.admitted
	demand := c.ladder.top() + 1
	if result := c.take(&k.admitted, top, at, weight, returned); result.Passes() {
		demand = c.ladder.top() - result.Remaining
	} else {
		denied = 1 << top
	}
	if demand > k.most {
		k.most = demand
		for range min(c.ladder.below(demand), top) - len(k.below) {
			k.below = append(k.below, before)
		}
	}
	for i := range k.below {
		if !c.take(&k.below[i], i, at, weight, returned).Passes() {
			denied |= 1 << i
		}
	}
	return denied
}

// take decides a request under one limit. With a refund it charges a copy of the state.
func (c *windowColumn) take(s *memory.State, limit int, at, weight int64, returned bool) limiter.Result {
	if returned {
		unchanged := *s
		s = &unchanged
	}
	return s.Take(c.policies[limit], at*c.tick, weight)
}
