package failover

import (
	"math"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/queue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
)

func TestMessage_read_invalid(t *testing.T) {
	p := storetest.DayPolicy(t, "read", limiter.GCRA, 10)
	for _, reply := range []any{nil, "", int64(5), []any{}, []any{int64(1)}, strings.Repeat("x", 39), strings.Repeat("\xff", 40), strings.Repeat("x", 72), doubles(math.NaN(), 0, 9, 1, 0), doubles(-1, 0, 9, 1, 0), doubles(1<<53, 0, 9, 1, 0)} {
		m := &wire.Message{}
		c := queue.NewCall(wire.OpTake, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}})
		m.Write([]*wire.Payload{&c.Payload}, wire.NewWriter(limiter.KeyFormat{}))
		m.Command("evalsha", "")
		m.Sent.SetVal(reply)
		m.Deliver(nil)
		redistest.ErrorIf(t, c.Err == nil, "%q was read as %+v", reply, c.Checks[0].Result)
	}
}

// FuzzRead passes any bytes to the reader in place of a script's answer.
func FuzzRead(f *testing.F) {
	f.Add("", "")
	f.Add(strings.Repeat("\x00", 40), "WRONGTYPE")
	f.Add(strings.Repeat("\xff", 40), "")
	f.Fuzz(func(t *testing.T, answers, problem string) {
		p := storetest.DayPolicy(t, "fuzz", limiter.GCRA, 10)
		for _, reply := range []any{answers, []any{answers, int64(1), problem}, []any{answers, problem}} {
			m := &wire.Message{}
			c := queue.NewCall(wire.OpTake, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}})
			m.Write([]*wire.Payload{&c.Payload}, wire.NewWriter(limiter.KeyFormat{}))
			m.Command("evalsha", "")
			m.Sent.SetVal(reply)
			m.Deliver(nil)
			if r := c.Checks[0].Result; c.Err == nil && (r.Remaining < 0 || r.Remaining > 10 || r.RetryAfter < limiter.Never || r.ResetAfter < 0 || r.Delay < 0) {
				t.Errorf("impossible result %+v", r)
			}
		}
	})
}
