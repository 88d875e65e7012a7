package wire

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

var (
	errReply = errors.New("unexpected answer of the script")
	errValue = errors.New("the script answered with numbers that are none")
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
		return fmt.Errorf("%w: a %T", errReply, reply)
	}
	size := 8
	for _, c := range m.Order {
		size += len(c.Checks) * answerSize[c.Op&(operationBits|WithReceipt|Ahead)]
	}
	if len(text) != size {
		return fmt.Errorf("%w: %d bytes instead of %d", errReply, len(text), size)
	}
	redisTime := Double(text, 0)
	if !(redisTime >= 0 && redisTime < kernel.Precision) {
		return fmt.Errorf("%w: now %v", errValue, redisTime)
	}
	m.RedisTime, text = int64(redisTime), text[8:]
	key := int64(1)
	for _, c := range m.Order {
		c.Err = nil
		failed := len(failures) >= 2 && failures[0] == key
		if failed {
			c.Err, failures = redisError(failures[1], Double(text, 0)), failures[2:]
			m.Uncovered = m.Uncovered || c.IsUncovered()
		}
		for i := range c.Checks {
			if c.Err == nil {
				c.Err = c.readAnswer(i, text)
			}
			if !failed {
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

// readAnswer reads the numbers that a check is answered with: wait, remaining, reset and delay. A negative delay is that
// of a banned client: twice what is left of the ban, and one more if the request began the ban.
func (p *Payload) readAnswer(check int, text string) error {
	c := &p.Checks[check]
	wait, remaining, reset, delay := Double(text, 0), Double(text, 1), Double(text, 2), Double(text, 3)
	if p.Op&operationBits == OpChange {
		return p.readChange(check, wait, remaining, reset, delay)
	}
	capacity, ban, least := float64(c.Policy.Params.Capacity), float64(0), float64(0)
	if c.Reserve != 0 {
		least = -1 - capacity
	}
	if delay < 0 {
		ban, delay = -delay, 0
	}
	late := kernel.InTime
	if wait < -1 && c.Policy.CountsRunning {
		if late = lateness(wait); late != kernel.InTime {
			wait = float64(kernel.RunningHint) // nothing passes that is to be sent again
		}
	}
	if !(wait >= -1 && wait < kernel.Precision) || !(remaining >= least && remaining <= capacity) ||
		!(reset >= 0 && reset < kernel.Precision) || !(delay >= 0 && delay < kernel.Precision) || ban >= kernel.Precision {
		return Undecided(fmt.Errorf("%w: wait %v, remaining %v, reset %v, delay %v", errValue, wait, remaining, reset, delay))
	}
	c.State.Late = late
	c.Result = limiter.Result{
		Remaining:  int64(remaining),
		RetryAfter: limiter.Duration(int64(wait)),
		ResetAfter: time.Duration(reset) * time.Microsecond,
		Delay:      time.Duration(delay) * time.Microsecond,
	}
	if number := int64(ban); number > 0 {
		c.Result.Banned, c.Result.BanBegins, c.Result.BanLeft = true, number%2 == 1, limiter.Duration(number/2)
	}
	if c.Reserve != 0 {
		limiter.Withhold(c)
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

// readChange reads what became of a change: 1 if it was postponed, the quota if that was to be shown, and the units
// that were added of a debt.
func (p *Payload) readChange(check int, postponed, remaining, reset, added float64) error {
	c := &p.Checks[check]
	capacity := float64(c.Policy.Params.Capacity)
	if postponed != 0 && postponed != 1 || !(remaining >= 0 && remaining <= capacity) ||
		!(reset >= 0 && reset < kernel.Precision) || !(added >= 0 && added <= capacity) {
		return Undecided(fmt.Errorf("%w: postponed %v, remaining %v, reset %v, added %v", errValue, postponed, remaining, reset, added))
	}
	p.Changes[check].Postponed, p.Changes[check].Added = postponed == 1, int64(added)
	c.Result = limiter.Result{Remaining: int64(remaining), ResetAfter: time.Duration(reset) * time.Microsecond}
	return nil
}

// readLease reads the units leased, for how many microseconds, and their receipt.
func (p *Payload) readLease(c *limiter.Check, text string) error {
	units, lasts := Double(text, 4), Double(text, 5)
	if !(units >= 0 && units <= float64(c.Policy.Params.Capacity)) || !(lasts >= 0 && lasts < kernel.Precision) {
		return Undecided(fmt.Errorf("%w: %v units for %v", errValue, units, lasts))
	}
	receipt, err := readReceipt(text, 6)
	p.Lease.Got = kernel.Lease{Units: int64(units), Lasts: int64(lasts), Receipt: receipt}
	return err
}

// readReceipt reads a receipt from the i-th double on.
func readReceipt(text string, i int) (kernel.Receipt, error) {
	first, second := Double(text, i), Double(text, i+1)
	if !(first >= 0 && first < kernel.Precision) || !(second >= 0 && second < kernel.Precision) {
		return kernel.Receipt{}, Undecided(fmt.Errorf("%w: receipt %v %v", errValue, first, second))
	}
	return kernel.Receipt{First: int64(first), Second: int64(second)}, nil
}

// lateness returns whether a message about running requests came too late, by the wait that the script answered.
func lateness(wait float64) kernel.Lateness {
	switch wait {
	case -4:
		return kernel.Superseded
	case -5:
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
