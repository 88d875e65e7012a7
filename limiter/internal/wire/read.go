package wire

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/decision"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
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
			c.Err = Undecided(redisError(failures[1]))
			failures = failures[2:]
		} else {
			c.Err = c.readAnswers(text)
			for i := range c.Checks {
				decision.Kept(&c.Checks[i]).AsOf, decision.Kept(&c.Checks[i]).Turn = m.RedisTime, int32(key)
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
	for i := range p.Checks {
		wait, remaining, reset, delay := Double(text, 0), Double(text, 1), Double(text, 2), Double(text, 3)
		capacity, left := float64(p.Checks[i].Policy.Rule().Params.Capacity), float64(0)
		least := float64(0)
		if p.Checks[i].Reserve != 0 {
			least = -1 - capacity
		}
		if delay < 0 {
			left, delay = -delay, 0
		}
		late := p.Checks[i].Policy.CountsRunning() && (wait == float64(Superseded) || wait == float64(Lost))
		if late {
			wait = 0
		}
		if !(wait >= -1 && wait < kernel.Precision) || !(remaining >= least && remaining <= capacity) ||
			!(reset >= 0 && reset < kernel.Precision) || !(delay >= 0 && delay < kernel.Precision) || left >= kernel.Precision {
			return Undecided(fmt.Errorf("%w: wait %v, remaining %v, reset %v, delay %v", errValue, wait, remaining, reset, delay))
		}
		p.Checks[i].Result = limiter.Result{
			Remaining:  int64(remaining),
			RetryAfter: decision.Duration(int64(wait)),
			ResetAfter: time.Duration(reset) * time.Microsecond,
			Delay:      time.Duration(delay) * time.Microsecond,
		}
		if late {
			p.Checks[i].Result.RetryAfter = time.Duration(Double(text, 0))
		}
		if left > 0 {
			readBan(&p.Checks[i].Result, int64(left))
		}
		decision.Withhold(&p.Checks[i])
		switch p.Op {
		case OpTakeRefundable:
			p.Receipts = append(p.Receipts, kernel.Receipt{First: int64(Double(text, 4)), Second: int64(Double(text, 5))})
		case opLease:
			if err := p.readLease(text); err != nil {
				return err
			}
		}
		text = text[p.Op.answerSize():]
	}
	return nil
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

// Superseded and Lost are the RetryAfter of a check whose message came too late. No caller gets them.
const (
	Superseded time.Duration = -4
	Lost       time.Duration = -5
)

// readBan reads a ban from what stands in place of a delay: twice what is left of it in microseconds,
// and one more where the request began it.
func readBan(r *limiter.Result, number int64) {
	r.Banned, r.BanBegins, r.BanLeft = true, number%2 == 1, decision.Duration(number/2)
}
