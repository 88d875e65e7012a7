package rule

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// Leave is what a request leaves to others of a policy: units, or percent of the capacity. The zero value
// is nothing.
type Leave struct{ Units, Percent int64 }

// maxLeavePercent is the most percent: with all of the capacity only requests would pass that are without the
// option.
const maxLeavePercent = 99

// ParseLeave reads the option leave: a number of units, or percent; empty is nothing.
func ParseLeave(text string) (Leave, error) {
	if text == "" {
		return Leave{}, nil
	}
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(digits, 10, 63)
	switch {
	case err != nil:
		return Leave{}, fmt.Errorf("leave %s: use a whole number of units such as 20, or of percent of the capacity such as 20%%", text)
	case percent && n > maxLeavePercent:
		return Leave{}, fmt.Errorf("leave %s: no request could ever pass; use at most %d%%", text, maxLeavePercent)
	case percent:
		return Leave{Percent: int64(n)}, nil
	}
	return Leave{Units: int64(n)}, nil
}

// Of returns the units that stay for others of a policy: at most what lets a request of one unit pass,
// because requests and overrides may bring small limits along.
func (l Leave) Of(p *limiter.Policy) int64 {
	if l == (Leave{}) {
		return 0
	}
	return min(l.wanted(p), p.MostLeave())
}

// wanted returns the units before they are cut. Percent are rounded up, and leave a unit to take.
func (l Leave) wanted(p *limiter.Policy) int64 {
	if l.Percent == 0 {
		return l.Units
	}
	capacity := p.Capacity()
	return min((l.Percent*capacity+99)/100, capacity-1)
}

// Check refuses a leave with which no request of a weight could pass the policy. Where requests bring
// limits along, theirs may be larger: what is too much is cut then.
func (l Leave) Check(p *limiter.Policy, weight int64, dynamic bool) error {
	wanted := l.wanted(p)
	if dynamic {
		wanted = l.Of(p)
	}
	capacity, most := p.Capacity(), p.MostLeave()
	switch {
	case l == (Leave{}):
		return nil
	case most == 0:
		return fmt.Errorf("leave %s: nothing of this policy can be left to others; leave it out", l)
	case wanted > most && most < capacity-1:
		return fmt.Errorf("leave %s: takes the queue longer to drain than its max_delay, so that no request could ever pass; use at most %d, or a longer max_delay", l, most)
	case wanted > capacity-weight && weight < capacity:
		return fmt.Errorf("leave %s: leaves %d of %d units to others, so that no request of weight %d could ever pass; use at most %d", l, wanted, capacity, weight, capacity-weight)
	case wanted > capacity-weight:
		return fmt.Errorf("leave %s: a request takes all of the capacity of %d; leave it out, or use a smaller weight", l, capacity)
	}
	return nil
}

// String returns it as it is configured; empty for nothing.
func (l Leave) String() string {
	switch {
	case l.Percent > 0:
		return strconv.FormatInt(l.Percent, 10) + "%"
	case l.Units > 0:
		return strconv.FormatInt(l.Units, 10)
	}
	return ""
}
