package redis

import (
	"math"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// readReply has a take of one check read a reply.
func readReply(t *testing.T, reply any) *Payload {
	t.Helper()
	m, c := &Message{scripts: new(ScriptSet)}, &Payload{}
	c.Fill(OpTake, []limiter.Check{{Policy: storetest.DayPolicy(t, "read", limiter.GCRA, 10), Key: limiter.EncodeKey("k"), Weight: 1}})
	m.Write([]*Payload{c}, NewKeyWriter(limiter.KeyFormat{}))
	m.Command("evalsha", "")
	m.Sent.SetVal(reply)
	m.Deliver(nil)
	return c
}

func TestMessage_read_invalid(t *testing.T) {
	for _, reply := range []any{
		nil, "", int64(5), []any{}, []any{int64(1)}, strings.Repeat("x", 39), strings.Repeat("\xff", 40), strings.Repeat("x", 72),
		redistest.Doubles(math.NaN(), 0, 9, 1, 0), redistest.Doubles(-1, 0, 9, 1, 0), redistest.Doubles(1<<53, 0, 9, 1, 0),
	} {
		c := readReply(t, reply)
		assert.ErrorIf(t, c.Err == nil, "%q was read as %+v", reply, c.Checks[0].Result)
	}
}

// FuzzRead passes any bytes to the reader in place of a script's answer.
func FuzzRead(f *testing.F) {
	f.Add("", "")
	f.Add(strings.Repeat("\x00", 40), "WRONGTYPE")
	f.Add(strings.Repeat("\xff", 40), "")
	f.Fuzz(func(t *testing.T, answers, problem string) {
		for _, reply := range []any{answers, []any{answers, int64(1), problem}, []any{answers, problem}} {
			c := readReply(t, reply)
			if r := c.Checks[0].Result; c.Err == nil && (r.Remaining < 0 || r.Remaining > 10 || r.RetryAfter < limiter.Never || r.ResetAfter < 0 || r.Delay < 0) {
				t.Errorf("impossible result %+v", r)
			}
		}
	})
}
