package redis

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// TestMessage_reserve holds the message of a batch without reserves to the length that it has had, and groups apart
// of different reserves.
func TestMessage_reserve(t *testing.T) {
	t.Parallel()
	p := storetest.DayPolicy(t, "wire", limiter.FixedWindow, 10)
	length := func(op Operation, reserves ...int64) (bytes, groups int) {
		m := Message{scripts: new(ScriptSet)}
		var calls []*Payload
		for _, reserve := range reserves {
			call := new(Payload)
			call.Fill(op, []limiter.Check{storetest.Leaving(p, 1, reserve)})
			calls = append(calls, call)
		}
		m.Write(calls, NewKeyWriter(limiter.KeyFormat{Prefix: "rl"}))
		return len(m.Text.Bytes), len(m.Groups)
	}
	const head, group = 8 + 7*8, 5 * 8
	for _, test := range []struct {
		op            Operation
		reserves      []int64
		bytes, groups int
	}{
		{OpTake, []int64{0, 0, 0}, head + group, 1},
		{OpTake, []int64{3, 3, 3}, head + group + 8, 1},
		{OpTake, []int64{0, 3, 4, 3, 0}, head + 3*group + 2*8, 3},
		{OpTake | WithReceipt, []int64{0, 3}, head + 2*group + 8, 2},
		{OpChange, []int64{0, 3}, head + group + 2*4*8, 1},
	} {
		if bytes, groups := length(test.op, test.reserves...); bytes != test.bytes || groups != test.groups {
			t.Errorf("operation %d, reserves %v: %d bytes, %d groups; want %d and %d", test.op, test.reserves, bytes, groups, test.bytes, test.groups)
		}
	}
}
