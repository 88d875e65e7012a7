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

// read passes the answer of the script to the calls: each gets its results or its own error.
func (m *Message) read(reply any) error {
	text, failures, err := splitReply(reply)
	if err != nil {
		return err
	}
	size := headSize
	for _, c := range m.Order {
		size += len(c.Checks) * c.Op.answerSize()
	}
	if len(text) != size {
		return fmt.Errorf("%w: %d bytes instead of %d", errReply, len(text), size)
	}
	redisTime := Double(text, 0)
	if !(redisTime >= 0 && redisTime < kernel.Precision) {
		return fmt.Errorf("%w: now %v", errValue, redisTime)
	}
	m.RedisTime, text = int64(redisTime), text[headSize:]
	key := int64(1)
	for _, c := range m.Order {
		if len(failures) >= 2 && failures[0] == key {
			c.Err = redisError(failures[1])
			if Double(text, 0) == failedHalfway {
				c.Err = halfwayError{c.Err}
			}
			c.Err, failures = Undecided(c.Err), failures[2:]
		} else {
			c.Err = c.readAnswers(text)
			for i := range c.Checks {
				c.Checks[i].State.DecidedAt, c.Checks[i].State.Turn = m.RedisTime, int32(key)
			}
		}
		text = text[len(c.Checks)*c.Op.answerSize():]
		key += int64(len(c.Checks))
	}
	return nil
}

// splitReply separates the string of answers from the list of failures.
func splitReply(reply any) (answers string, failures []any, err error) {
	switch reply := reply.(type) {
	case string:
		return reply, nil, nil
	case []any:
		if len(reply) > 0 {
			if answers, ok := reply[0].(string); ok {
				return answers, reply[1:], nil
			}
		}
	}
	return "", nil, fmt.Errorf("%w: a %T", errReply, reply)
}

// readAnswers fills in the results of a call's checks.
func (p *Payload) readAnswers(text string) error {
	own := operations[p.Op].read
	for i := range p.Checks {
		err := readAnswer(&p.Checks[i], text)
		if err == nil && own != nil {
			err = own(p, i, text)
		}
		if err != nil {
			return err
		}
		text = text[p.Op.answerSize():]
	}
	return nil
}

// readAnswer reads the four numbers that each check is answered with. Twice what is left of a ban stands in place of
// a delay, with the sign changed, and one more where the request began it.
func readAnswer(c *limiter.Check, text string) error {
	wait, remaining, reset, delay := Double(text, 0), Double(text, 1), Double(text, 2), Double(text, 3)
	capacity, ban, least := float64(c.Policy.Params.Capacity), float64(0), float64(0)
	if c.Reserve != 0 {
		least = -1 - capacity
	}
	if delay < 0 {
		ban, delay = -delay, 0
	}
	late := kernel.InTime
	if c.Policy.CountsRunning {
		if late = lateness(wait); late != kernel.InTime {
			wait = 0
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
	limiter.Withhold(c)
	if late != kernel.InTime {
		c.Result.RetryAfter = limiter.Duration(kernel.RunningHint) // nothing passes that is to be sent again
	}
	return nil
}

// lateness returns what the wait of a message about running requests says of it.
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
