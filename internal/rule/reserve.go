package rule

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Reserve is how much of a quota must remain for others when a request passes: units, or percent of the capacity. The
// zero value is nothing.
type Reserve struct{ Units, Percent int64 }

// maxReservePercent is the largest percentage: with 100 % no request with the option could pass.
const maxReservePercent = 99

// ParseReserve reads the option reserve: a number of units, or a percentage; empty is nothing.
func ParseReserve(text string) (Reserve, error) {
	if text == "" {
		return Reserve{}, nil
	}
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(digits, 10, 63)
	switch {
	case err != nil:
		return Reserve{}, fmt.Errorf("reserve %s: use a whole number of units such as 20, or of percent of the capacity such as 20%%", text)
	case percent && n > maxReservePercent:
		return Reserve{}, fmt.Errorf("reserve %s: no request could ever pass; use at most %d%%", text, maxReservePercent)
	case percent:
		return Reserve{Percent: int64(n)}, nil
	}
	return Reserve{Units: int64(n)}, nil
}

// of returns the units of a policy that must remain for others. They are cut so that a request of one unit can pass:
// placeholders and overrides may have a limit smaller than the reserve.
func (r Reserve) of(p *limiter.Policy) int64 {
	if r == (Reserve{}) {
		return 0
	}
	return min(r.wanted(p), p.MostReserve())
}

// wanted returns the units before they are cut. A percentage is rounded up, to at most the capacity less one.
func (r Reserve) wanted(p *limiter.Policy) int64 {
	if r.Percent == 0 {
		return r.Units
	}
	capacity := p.Capacity()
	return min((r.Percent*capacity+99)/100, capacity-1)
}

// Check refuses a reserve with which no request of a weight could pass the policy. With dynamic limits, which may be
// larger than the policy's, a reserve that is too large is cut instead.
func (r Reserve) Check(p *limiter.Policy, weight int64, dynamic bool) error {
	wanted := r.wanted(p)
	if dynamic {
		wanted = r.of(p)
	}
	capacity, most := p.Capacity(), p.MostReserve()
	switch {
	case r == (Reserve{}):
		return nil
	case most == 0:
		return fmt.Errorf("reserve %s: nothing of this policy can be reserved; leave it out", r)
	case wanted > most && most < capacity-1:
		return fmt.Errorf("reserve %s: takes the queue longer to drain than its max_delay, so that no request could ever pass; "+
			"use at most %d, or a longer max_delay", r, most)
	case wanted > capacity-weight && weight < capacity:
		return fmt.Errorf("reserve %s: %d of %d units stay for others, so that no request of weight %d could ever pass; use at most %d",
			r, wanted, capacity, weight, capacity-weight)
	case wanted > capacity-weight:
		return fmt.Errorf("reserve %s: a request takes all of the capacity of %d; leave it out, or use a smaller weight", r, capacity)
	}
	return nil
}

// String returns the reserve as it is configured; empty for nothing.
func (r Reserve) String() string {
	switch {
	case r.Percent > 0:
		return strconv.FormatInt(r.Percent, 10) + "%"
	case r.Units > 0:
		return strconv.FormatInt(r.Units, 10)
	}
	return ""
}
