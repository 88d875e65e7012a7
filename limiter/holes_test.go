package limiter

import (
	"fmt"
	"testing"
	"time"
)

// holesOf counts the states with holes in a policy's table.
func holesOf(m *Memory, p *Policy) (count int) {
	table := m.tableOf(p)
	for i := range table.shards {
		count += len(table.shards[i].holes)
	}
	return count
}

// reserveThree takes three units of a key and refunds the second, which leaves a hole.
func reserveThree(t *testing.T, m *Memory, p *Policy, key string) (open [][]Check) {
	t.Helper()
	for range 3 {
		open = append(open, decide(t, m, Check{Policy: p, Key: EncodeKey(key), Refundable: true}))
	}
	refundIn(m, open[1])
	return open
}

// TestMemory_holes_end has every way by which a state ends, or its holes, drop them.
func TestMemory_holes_end(t *testing.T) {
	now := epoch
	for name, end := range map[string]func(t *testing.T, m *Memory, p *Policy, open [][]Check){
		"refunds of the others": func(_ *testing.T, m *Memory, _ *Policy, open [][]Check) {
			refundIn(m, open[2])
			refundIn(m, open[0])
		},
		"a take of a drained bucket": func(t *testing.T, m *Memory, p *Policy, _ [][]Check) {
			now += 10 * sec
			decide(t, m, Check{Policy: p, Key: EncodeKey("k")})
		},
		"a charge of a drained bucket": func(_ *testing.T, m *Memory, p *Policy, _ [][]Check) {
			now += 10 * sec
			chargeIn(m, []Check{{Policy: p, Key: EncodeKey("k"), Weight: 1}})
		},
		"a charge that saturates": func(_ *testing.T, m *Memory, p *Policy, _ [][]Check) {
			chargeIn(m, []Check{{Policy: p, Key: EncodeKey("k"), Weight: MaxCharge}})
		},
		"a reset of the key": func(_ *testing.T, m *Memory, p *Policy, _ [][]Check) {
			s := m.lock(p, "k")
			s.drop("k")
			s.mu.Unlock()
		},
		"a reset of the policy": func(_ *testing.T, m *Memory, p *Policy, _ [][]Check) {
			s := m.lock(p, "k")
			s.dropAll()
			s.mu.Unlock()
		},
		"a sweep": func(_ *testing.T, m *Memory, p *Policy, _ [][]Check) {
			now += 60 * sec
			s := m.lock(p, "k")
			s.sweep(now, 1)
			s.mu.Unlock()
		},
		"the end of the table": func(_ *testing.T, m *Memory, p *Policy, _ [][]Check) {
			now += 60 * sec
			s := m.lock(p, "k")
			s.clearIfReset(now)
			s.mu.Unlock()
		},
	} {
		m := NewMemoryOnClock(func() int64 { return now })
		p := mustPolicy(t, bucketOfTen)
		open := reserveThree(t, m, p, "k")
		if got := holesOf(m, p); got != 1 {
			t.Errorf("%s: %d states have holes before it", name, got)
		}
		end(t, m, p, open)
		if got := holesOf(m, p); got != 0 {
			t.Errorf("%s: %d states have holes after it", name, got)
		}
	}
}

// TestMemory_holes_overflow refunds in a place without holes: less than was taken, and never more.
func TestMemory_holes_overflow(t *testing.T) {
	m := NewMemoryOnClock(func() int64 { return epoch })
	m.Limit(1, nil)
	p := mustPolicy(t, Settings{Algorithm: GCRA, Limit: 1, Window: time.Second, Burst: 100})
	reserveThree(t, m, p, "kept")
	for i := range 20 {
		open := reserveThree(t, m, p, fmt.Sprint(i))
		refundIn(m, open[0])
		refundIn(m, open[2])
	}
	if got := holesOf(m, p); got != 1 {
		t.Errorf("%d states have holes; want that of the kept key alone", got)
	}
	less := 0
	for i := range 20 {
		left := decide(t, m, Check{Policy: p, Key: EncodeKey(fmt.Sprint(i)), Peek: true})[0].Result.Remaining
		if left == 99 { // the first unit, which was refunded after the second
			less++
		}
	}
	if less < 18 { // two keys seldom have a place in common
		t.Errorf("%d of 20 keys have 99 units left", less)
	}
}
