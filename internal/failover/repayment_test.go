package failover

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// TestRepayment_vectors plays the vectors of the design: what a node owes after an outage, and what that
// leaves on Redis.
func TestRepayment_vectors(t *testing.T) {
	t.Parallel()
	bucketOfTen := limiter.Settings{Algorithm: limiter.TokenBucket, Limit: 10, Window: 10 * time.Second}
	counterOfTen := limiter.Settings{Algorithm: limiter.SlidingWindowCounter, Limit: 10, Window: 10 * time.Second}
	windowOfTen := limiter.Settings{Algorithm: limiter.FixedWindow, Limit: 10, Window: 10 * time.Second}
	logOfTen := limiter.Settings{Algorithm: limiter.SlidingWindowLog, Limit: 10, Window: 10 * time.Second}
	const oneASecond = "at 1000 take 1 at 2000 take 1 at 3000 take 1 at 4000 take 1 at 5000 take 1 " +
		"at 6000 take 1 at 7000 take 1 at 8000 take 1 at 9000 take 1 at 10000 take 1 "
	for _, v := range []struct {
		name     string
		settings limiter.Settings
		steps    string
	}{
		{"a bucket that was full", bucketOfTen, "take 10 away " + oneASecond + "back repaid 10 0 repaid 10 0"},
		{"a bucket that was not seen", bucketOfTen, "away take 10 at 5000 back repaid 5 5 repaid 5 5"},
		{"the first request may be charged", bucketOfTen, "take 9 timeout 1 away " + oneASecond + "back repaid 10 0"},
		{"the window before", counterOfTen, "away at 5000 take 6 at 12000 back repaid 6 6 repaid 6 6"},
		{"both windows", counterOfTen, "take 2 away at 5000 take 6 at 15000 take 3 back repaid 9 3 repaid 9 3"},
		{"the current window", windowOfTen, "away at 8000 take 6 at 9500 back repaid 6 4 repaid 6 4"},
		{"a window that has ended", windowOfTen, "away at 8000 take 6 at 12000 back repaid 0 10 repaid 0 10"},
		{"a log", logOfTen, "take 1 away at 1000 take 2 at 5000 take 3 at 11500 back repaid 3 7 repaid 3 7"},
		{"a debt denies at once", bucketOfTen, "take 1 away charge 100 denied 1 back repaid 9 0"},
		{"costs up to the capacity", bucketOfTen, "take 1 away charge 4 back repaid 4 5 away owe 100 back repaid 9 0"},
		{"a refund is lost, the rest of a cost follows", counterOfTen, "reserve 3 reserve 3 away cost 1 cost 4 lost 1 back repaid 1 3"},
	} {
		t.Run(v.name, func(t *testing.T) {
			server := redistest.Shared(t)
			newOutageNode(t, server, server.Addr).play(t, storetest.NewPolicy(t, v.settings), "at 0 "+v.steps)
		})
	}
}

// TestRepayment_algorithms plays outages that all algorithms repay alike.
func TestRepayment_algorithms(t *testing.T) {
	t.Parallel()
	n := newSharedOutageNode(t)
	for name, steps := range map[string]string{
		"costs":         "away reserve 100 cost 40 reserve 100 cost 150 reserve 100 cost 0 reserve 100 cost 100 back repaid 290 710",
		"late-costs":    "away reserve 100 reserve 100 back repaid 200 800 cost 30 cost 130 repaid 230 770", // a refund is left to drain
		"reset-within":  "away take 1000 reset take 400 back reset repaid 0 1000",
		"reset-after":   "away take 300 back repaid 300 700 reset repaid 300 1000",
		"forgotten":     "away take 300 forget back repaid 0 1000",
		"foreign-value": "away take 200 spoil back take 100 take 100 take 100 lost 1 even",
	} {
		for _, algorithm := range limiter.Algorithms() {
			n.play(t, storetest.DayPolicy(t, name+"-"+algorithm, algorithm, 1000), steps)
		}
	}
}

// TestRepayment_nodes has two nodes admit a whole bucket each. Both drain theirs, so that 10 of the 20
// units are owed after 5 s.
func TestRepayment_nodes(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	a, b := newOutageNode(t, server, server.Addr), newOutageNode(t, server, server.Addr)
	p := storetest.NewPolicy(t, limiter.Settings{Algorithm: limiter.GCRA, Limit: 10, Window: 10 * time.Second})
	for _, n := range []*outageNode{a, b} {
		n.set(storetest.Epoch)
		n.away()
		n.take(t, p, 10)
	}
	for i, n := range []*outageNode{a, b} {
		n.set(storetest.Epoch + 5*storetest.Sec)
		n.back()
		n.wantRepaid(t, p, 5, int64(5-5*i))
	}
}

// TestRepayment_capacity has many nodes admit a whole limit each. No quota is raised above its capacity.
func TestRepayment_capacity(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for _, algorithm := range limiter.Algorithms() {
		p := storetest.NewPolicy(t, limiter.Settings{Name: "many-" + algorithm, Algorithm: algorithm, Limit: 10, Window: time.Hour})
		for range 4 {
			n := newOutageNode(t, server, server.Addr)
			n.set(storetest.Epoch + 1)
			n.away()
			assert.FatalIf(t, !n.take(t, p, 10), "a node has no quota of its own")
			n.back()
			left, err := storetest.Peek(t.Context(), n, p, "k")
			assert.ErrorIf(t, err != nil || left.Remaining != 0 || left.ResetAfter > 2*time.Hour, "%s: %+v, %v", algorithm, left, err)
		}
		n := newOutageNode(t, server, server.Addr)
		n.set(storetest.Epoch + 1)
		denied := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 10}}
		assert.ErrorIf(t, n.take(t, p, 1), "%s: a unit passes", algorithm)
		_, err := n.Decide(t.Context(), denied)
		assert.ErrorIf(t, err != nil || denied[0].Result.RetryAfter > 2*time.Hour, "%s: %+v, %v", algorithm, denied[0].Result, err)
	}
}

// TestRepayment_unknown admits a request that Redis may have charged: nothing is owed for it. One that was
// certainly not sent is owed.
func TestRepayment_unknown(t *testing.T) {
	t.Parallel()
	n := newSharedOutageNode(t)
	for _, algorithm := range limiter.Algorithms() {
		p := storetest.NewPolicy(t, limiter.Settings{Name: "unknown-" + algorithm, Algorithm: algorithm, Limit: 100, Window: time.Hour})
		for _, outcome := range []struct {
			reason error
			units  int64
		}{
			{limiter.ErrTimeout, 0}, {&limiter.UndecidedError{Kind: "connection", Err: errors.New("EOF")}, 0},
			{errors.Join(limiter.ErrOutage, limiter.ErrTimeout), 0},
			{&limiter.UndecidedError{Kind: "value", Err: dial.Failure("FOREIGNVALUE")}, 0},
			{limiter.ErrUnsent, 1}, {limiter.ErrOutage, 1}, {limiter.ErrOverload, 1}, {limiter.ErrAlreadyTimedOut, 1}, {errors.Join(limiter.ErrOutage, limiter.ErrUnsent), 1},
			{dial.Undecided(dial.Failure("OOM command not allowed")), 1}, {dial.Undecided(dial.Failure("READONLY You can't write")), 1},
		} {
			n.settled.Store(0)
			before, err := storetest.Peek(t.Context(), n, p, "k")
			assert.Must(t, err)
			_, err = n.Fallback(limiter.FailLocal, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}, outcome.reason)
			assert.Must(t, err)
			n.wantRepaid(t, p, outcome.units, before.Remaining-outcome.units)
		}
	}
}

// TestRepayment_atOnce has two requests begin an outage at once: the one that has seen the bucket adds to
// the account of the other.
func TestRepayment_atOnce(t *testing.T) {
	t.Parallel()
	n := newSharedOutageNode(t)
	p := storetest.NewPolicy(t, limiter.Settings{Algorithm: limiter.TokenBucket, Limit: 10, Window: 10 * time.Second})
	n.take(t, p, 8)
	n.away()
	check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k")}
	seen := n.ledger.lastSeen(&check)
	n.ledger.admit(&check, memory.LastSeen{}, limiter.ErrOutage)
	n.ledger.admit(&check, seen, limiter.ErrOutage)
	n.set(storetest.Epoch + 8*storetest.Sec)
	n.back()
	n.wantRepaid(t, p, 2, 8)
}

// TestRepayment_decayed begins an outage with clients whose units are free again soon. They leave their
// places to others.
func TestRepayment_decayed(t *testing.T) {
	t.Parallel()
	n := newSharedOutageNode(t)
	n.local.Limit(5, nil)
	n.set(storetest.Epoch)
	n.away()
	for _, algorithm := range limiter.Algorithms() {
		p := storetest.NewPolicy(t, limiter.Settings{Name: "short-" + algorithm, Algorithm: algorithm, Limit: 10, Window: time.Second})
		n.take(t, p, 10)
	}
	scan := func() {
		for i := range n.ledger.shards {
			n.ledger.repayShard(&n.ledger.shards[i], map[*redis.Node]int{}, repayScan)
		}
	}
	scan()
	got := n.ledger.size.Load()
	assert.FatalIf(t, got != 5, "%d accounts, want 5", got)
	n.set(storetest.Epoch + 3*storetest.Sec)
	scan()
	got = n.ledger.size.Load()
	assert.ErrorIf(t, got != 0, "%d accounts, want none", got)
	day := storetest.DayPolicy(t, "day", limiter.FixedWindow, 10)
	n.take(t, day, 3)
	n.back()
	n.wantRepaid(t, day, 3, 7)
}

// TestRepayment_lostReply loses the reply to a settlement. Its units are never sent again; those that are
// admitted afterwards are.
func TestRepayment_lostReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	n := newOutageNode(t, server, proxy.Addr)
	p := storetest.NewPolicy(t, limiter.Settings{Algorithm: limiter.FixedWindow, Limit: 10, Window: storetest.LongWindow(0)})
	n.set(storetest.Epoch)
	other := storetest.DayPolicy(t, "other", limiter.FixedWindow, 10)
	n.away()
	n.take(t, other, 1)
	n.back()
	n.wantRepaid(t, other, 1, 9) // Redis has the script that settles
	n.away()
	n.take(t, p, 3)
	n.back()
	proxy.CutNextReply()
	assert.NoError(storetest.Peek(t.Context(), n, p, "k"))(t)
	assert.Retry(t, "the loss is reported", func() (again bool, seen any) {
		return n.lost.Load() != 1, fmt.Sprintf("%d losses", n.lost.Load())
	})
	n.away()
	n.take(t, p, 2)
	n.back()
	n.wantRepaid(t, p, 3, 5) // Redis has done both
}

// TestRepayment_refused has Redis refuse to write while debts are sent: they stay.
func TestRepayment_refused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := newOutageNode(t, server, server.Addr)
	n.set(storetest.Epoch)
	for _, algorithm := range limiter.Algorithms() {
		p := storetest.NewPolicy(t, limiter.Settings{Name: "refused-" + algorithm, Algorithm: algorithm, Limit: 10, Window: time.Hour})
		n.settled.Store(0)
		n.away()
		n.take(t, p, 2)
		n.back()
		assert.Must(t, server.Client(t).ConfigSet(t.Context(), "maxmemory", "1").Err())
		n.take(t, p, 3)
		assert.Retry(t, "the debts are back", func() (again bool, seen any) {
			got := n.ledger.debtsOf(p)
			return n.ledger.size.Load() != 1 || len(got) != 1, fmt.Sprintf("%s: %d accounts, owed %v", algorithm, n.ledger.size.Load(), got)
		})
		assert.Must(t, server.Client(t).ConfigSet(t.Context(), "maxmemory", "0").Err())
		n.back()
		n.wantRepaid(t, p, 5, 5)
	}
}

// debtsOf returns the debts of the key "k".
func (l *ledger) debtsOf(p *limiter.Policy) []kernel.Debt {
	s := l.shards.Of("k")
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[limiter.QuotaName{Policy: p.ID, Key: "k"}]
	if a == nil {
		return nil
	}
	return l.owed(a)
}
