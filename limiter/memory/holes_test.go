package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
)

// holesOf counts the states with holes in a policy's table.
func holesOf(m *Store, p *limiter.Policy) (count int) {
	table := m.TableOf(p)
	for i := range table.Shards {
		count += len(table.Shards[i].Holes)
	}
	return count
}

// reserveThree takes three units of a key and refunds the second, which leaves a hole.
func reserveThree(t *testing.T, m *Store, p *limiter.Policy, key string) (open [][]limiter.Check) {
	t.Helper()
	for range 3 {
		open = append(open, storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey(key), Refundable: true}))
	}
	storetest.RefundIn(m, open[1])
	return open
}

// TestMemory_holes_end has every way by which a state ends, or its holes, drop them.
func TestMemory_holes_end(t *testing.T) {
	now := storetest.Epoch
	for name, end := range map[string]func(t *testing.T, m *Store, p *limiter.Policy, open [][]limiter.Check){
		"refunds of the others": func(_ *testing.T, m *Store, _ *limiter.Policy, open [][]limiter.Check) {
			storetest.RefundIn(m, open[2])
			storetest.RefundIn(m, open[0])
		},
		"a take of a drained bucket": func(t *testing.T, m *Store, p *limiter.Policy, _ [][]limiter.Check) {
			now += 10 * storetest.Sec
			storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey("k")})
		},
		"a charge of a drained bucket": func(_ *testing.T, m *Store, p *limiter.Policy, _ [][]limiter.Check) {
			now += 10 * storetest.Sec
			storetest.ChargeIn(m, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}})
		},
		"a charge that saturates": func(_ *testing.T, m *Store, p *limiter.Policy, _ [][]limiter.Check) {
			storetest.ChargeIn(m, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: limiter.MaxCharge}})
		},
		"a reset of the key": func(_ *testing.T, m *Store, p *limiter.Policy, _ [][]limiter.Check) {
			s := m.Lock(p, "k")
			s.Drop("k")
			s.Mu.Unlock()
		},
		"a reset of the policy": func(_ *testing.T, m *Store, p *limiter.Policy, _ [][]limiter.Check) {
			s := m.Lock(p, "k")
			s.DropAll()
			s.Mu.Unlock()
		},
		"a sweep": func(_ *testing.T, m *Store, p *limiter.Policy, _ [][]limiter.Check) {
			now += 60 * storetest.Sec
			s := m.Lock(p, "k")
			s.Sweep(now, 1)
			s.Mu.Unlock()
		},
		"the end of the table": func(_ *testing.T, m *Store, p *limiter.Policy, _ [][]limiter.Check) {
			now += 60 * storetest.Sec
			s := m.Lock(p, "k")
			s.ClearIfReset(now)
			s.Mu.Unlock()
		},
	} {
		m := NewOnClock(func() int64 { return now })
		p := storetest.NewPolicy(t, limiter.Settings{Algorithm: limiter.LeakyBucket, Limit: 1, Window: time.Second, Burst: 10})
		open := reserveThree(t, m, p, "k")
		got := holesOf(m, p)
		redistest.ErrorIf(t, got != 1, "%s: %d states have holes before it", name, got)
		end(t, m, p, open)
		got = holesOf(m, p)
		redistest.ErrorIf(t, got != 0, "%s: %d states have holes after it", name, got)
	}
}

// TestMemory_holes_overflow refunds in a place without holes: less than was taken, and never more.
func TestMemory_holes_overflow(t *testing.T) {
	m := NewOnClock(func() int64 { return storetest.Epoch })
	m.Limit(1, nil)
	p := storetest.NewPolicy(t, limiter.Settings{Algorithm: limiter.GCRA, Limit: 1, Window: time.Second, Burst: 100})
	reserveThree(t, m, p, "kept")
	for i := range 20 {
		open := reserveThree(t, m, p, fmt.Sprint(i))
		storetest.RefundIn(m, open[0])
		storetest.RefundIn(m, open[2])
	}
	got := holesOf(m, p)
	redistest.ErrorIf(t, got != 1, "%d states have holes; want that of the kept key alone", got)
	less := 0
	for i := range 20 {
		left := storetest.Decide(t, m, limiter.Check{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(i)), Peek: true})[0].Result.Remaining
		if left == 99 { // the first unit, which was refunded after the second
			less++
		}
	}
	if less < 18 { // two keys seldom have a place in common
		t.Errorf("%d of 20 keys have 99 units left", less)
	}
}
