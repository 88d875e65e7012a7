package limiter

import (
	"math"
	"strings"
	"testing"
)

func TestMessage_read_invalid(t *testing.T) {
	p := dayPolicy(t, "read", GCRA, 10)
	for _, reply := range []any{nil, "", int64(5), []any{}, []any{int64(1)}, strings.Repeat("x", 39), strings.Repeat("\xff", 40), strings.Repeat("x", 72), doubles(math.NaN(), 0, 9, 1, 0), doubles(-1, 0, 9, 1, 0), doubles(1<<53, 0, 9, 1, 0)} {
		m := &message{}
		c := newCall(opTake, []Check{{Policy: p, Key: EncodeKey("k"), Weight: 1}})
		m.write([]*payload{&c.payload}, KeyFormat{}.newWriter())
		m.command("evalsha", "")
		m.sent.SetVal(reply)
		m.deliver(nil)
		if c.err == nil {
			t.Errorf("%q was read as %+v", reply, c.checks[0].Result)
		}
	}
}

// FuzzRead passes any bytes to the reader in place of a script's answer.
func FuzzRead(f *testing.F) {
	f.Add("", "")
	f.Add(strings.Repeat("\x00", 40), "WRONGTYPE")
	f.Add(strings.Repeat("\xff", 40), "")
	f.Fuzz(func(t *testing.T, answers, problem string) {
		p := dayPolicy(t, "fuzz", GCRA, 10)
		for _, reply := range []any{answers, []any{answers, int64(1), problem}, []any{answers, problem}} {
			m := &message{}
			c := newCall(opTake, []Check{{Policy: p, Key: EncodeKey("k"), Weight: 1}})
			m.write([]*payload{&c.payload}, KeyFormat{}.newWriter())
			m.command("evalsha", "")
			m.sent.SetVal(reply)
			m.deliver(nil)
			if r := c.checks[0].Result; c.err == nil && (r.Remaining < 0 || r.Remaining > 10 || r.RetryAfter < Never || r.ResetAfter < 0 || r.Delay < 0) {
				t.Errorf("impossible result %+v", r)
			}
		}
	})
}
