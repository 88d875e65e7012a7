package redis

import (
	"fmt"
	"math"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// read passes the answer of the script to the calls: each gets its results or its own error. The answer is a string of
// doubles that begins with Redis's time. If requests failed, the answer is an array: that string, and for each failure
// the number of its first key and the error.
func (m *Message) read(reply any) error {
	var failures []any
	if parts, failed := reply.([]any); failed && len(parts) > 0 {
		reply, failures = parts[0], parts[1:]
	}
	text, isText := reply.(string)
	if !isText {
		return fmt.Errorf("%w: a %T", dial.ErrReply, reply)
	}
	size := 8
	for _, c := range m.Order {
		size += len(c.Checks) * answerSize[c.Op&(operationBits|WithReceipt|Ahead)]
	}
	if len(text) != size {
		return fmt.Errorf("%w: %d bytes instead of %d", dial.ErrReply, len(text), size)
	}
	redisTime := Double(text, 0)
	if !(redisTime >= 0 && redisTime < kernel.Precision) {
		return fmt.Errorf("%w: now %v", dial.ErrValue, redisTime)
	}
	m.RedisTime, text = int64(redisTime), text[8:]
	key := int64(1)
	for _, c := range m.Order {
		c.Err = nil
		hasFailed := len(failures) >= 2 && failures[0] == key
		if hasFailed {
			c.Err, failures = redisError(failures[1], Double(text, 0) == failedHalfway), failures[2:]
			m.Uncovered = m.Uncovered || c.IsUncovered()
		}
		for i := range c.Checks {
			if c.Err == nil {
				c.Err = c.readAnswer(i, text)
			}
			if !hasFailed {
				c.Checks[i].State.DecidedAt, c.Checks[i].State.Turn = m.RedisTime, int32(key)
			}
			text = text[answerSize[c.Op&(operationBits|WithReceipt|Ahead)]:]
		}
		key += int64(len(c.Checks))
	}
	return nil
}

// answerSize is the length of the answer to one check in bytes, of doubles: four that [Payload.readAnswer] reads, and
// of takes what they bring beside.
var answerSize = [...]int{
	OpTake:               4 * 8,
	OpPeek:               4 * 8,
	OpChange:             4 * 8,
	OpState:              4 * 8,
	OpTake | WithReceipt: 6 * 8,
	OpTake | Ahead:       8 * 8,
}

// readAnswer reads the numbers that a check is answered with: wait, remaining, reset and delay. What they mean beside
// stands in numbers.go.
func (p *Payload) readAnswer(check int, text string) error {
	c := &p.Checks[check]
	wait, remaining, reset, delay := Double(text, 0), Double(text, 1), Double(text, 2), Double(text, 3)
	if p.Op&operationBits == OpChange {
		return p.readChange(check, wait, remaining, reset, delay)
	}
	ban := int64(0) // times the factor
	if delay < 0 && delay > -kernel.Precision {
		ban, delay = int64(delay), 0
	}
	isBeyondQueue := c.Reserve != 0 && remaining < 0
	if isBeyondQueue {
		remaining = beyondQueue - remaining
	}
	late := kernel.InTime
	if wait < kernel.Never && c.Policy.CountsRunning {
		if late = lateness(wait); late != kernel.InTime {
			wait = float64(kernel.RunningHint) // nothing passes that is to be sent again
		}
	}
	if !(wait >= kernel.Never && wait < kernel.Precision) || !(remaining >= 0 && remaining <= float64(c.Policy.Params.Capacity)) ||
		!(reset >= 0 && reset < kernel.Precision) || !(delay >= 0 && delay < kernel.Precision) {
		return dial.Undecided(fmt.Errorf("%w: wait %v, remaining %v, reset %v, delay %v", dial.ErrValue, wait, remaining, reset, delay))
	}
	c.State.Late = late
	c.Result = limiter.Result{
		Remaining:  int64(remaining),
		RetryAfter: limiter.Duration(int64(wait)),
		ResetAfter: time.Duration(reset) * time.Microsecond,
		Delay:      time.Duration(delay) * time.Microsecond,
	}
	if ban != 0 {
		c.Result.Banned, c.Result.BanBegins, c.Result.BanLeft = true, ban%banned == banBegins, limiter.Duration(ban/banned)
	}
	if c.Reserve != 0 {
		limiter.Withhold(c, isBeyondQueue)
	}
	switch p.Op {
	case OpTake | WithReceipt:
		receipt, err := readReceipt(text, 4)
		c.State.Receipt = receipt
		return err
	case OpTake | Ahead:
		return p.readLease(c, text)
	}
	return nil
}

// readChange reads what became of a change: whether its refund was postponed, the quota if that was to be shown, and the
// units that were added of a debt.
func (p *Payload) readChange(check int, refund, remaining, reset, added float64) error {
	c := &p.Checks[check]
	capacity := float64(c.Policy.Params.Capacity)
	if refund != 0 && refund != postponed || !(remaining >= 0 && remaining <= capacity) ||
		!(reset >= 0 && reset < kernel.Precision) || !(added >= 0 && added <= capacity) {
		return dial.Undecided(fmt.Errorf("%w: postponed %v, remaining %v, reset %v, added %v", dial.ErrValue, refund, remaining, reset, added))
	}
	p.Changes[check].Postponed, p.Changes[check].Added = refund == postponed, int64(added)
	c.Result = limiter.Result{Remaining: int64(remaining), ResetAfter: time.Duration(reset) * time.Microsecond}
	return nil
}

// readLease reads the units leased, for how many microseconds, and their receipt.
func (p *Payload) readLease(c *limiter.Check, text string) error {
	units, lasts := Double(text, 4), Double(text, 5)
	if !(units >= 0 && units <= float64(c.Policy.Params.Capacity)) || !(lasts >= 0 && lasts < kernel.Precision) {
		return dial.Undecided(fmt.Errorf("%w: %v units for %v", dial.ErrValue, units, lasts))
	}
	receipt, err := readReceipt(text, 6)
	p.Lease.Got = kernel.Lease{Units: int64(units), Lasts: int64(lasts), Receipt: receipt}
	return err
}

// readReceipt reads a receipt from the i-th double on.
func readReceipt(text string, i int) (kernel.Receipt, error) {
	first, second := Double(text, i), Double(text, i+1)
	if !(first >= 0 && first < kernel.Precision) || !(second >= 0 && second < kernel.Precision) {
		return kernel.Receipt{}, dial.Undecided(fmt.Errorf("%w: receipt %v %v", dial.ErrValue, first, second))
	}
	return kernel.Receipt{First: int64(first), Second: int64(second)}, nil
}

// lateness returns whether a message about running requests came too late, by the wait that the script answered.
func lateness(wait float64) kernel.Lateness {
	switch wait {
	case superseded:
		return kernel.Superseded
	case lost:
		return kernel.Lost
	}
	return kernel.InTime
}

// Double reads the i-th little-endian double of text.
func Double(text string, i int) float64 {
	text = text[8*i : 8*i+8]
	var raw uint64
	for j := 7; j >= 0; j-- {
		raw = raw<<8 | uint64(text[j])
	}
	return math.Float64frombits(raw)
}
