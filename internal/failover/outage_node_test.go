package failover

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// estimate is what a node took by an estimate, and who decided that.
type estimate struct {
	check  limiter.Check
	source limiter.Source
}

// play plays the steps of an outage: "away" and "back", "at" so many milliseconds, "take" and "denied" so many units, "reserve" an
// estimate and settle it to its "cost", the oldest first, "timeout" for a request that Redis may have charged, "charge"
// what a request of Redis cost and "owe" what one of the outage did, "reset" the key, "forget" all keys of the policy,
// "spoil" the key's value. "repaid" compares the units that were settled since the first step, and those that are left,
// "lost" the losses since then, and "even" says that nothing is owed.
func (n *outageNode) play(t *testing.T, p *limiter.Policy, steps string) {
	t.Helper()
	n.settled.Store(0)
	n.lost.Store(0)
	var reserved []estimate
	words := strings.Fields(steps)
	number := func() int64 {
		t.Helper()
		words = words[1:]
		return assert.NoError(strconv.ParseInt(words[0], 10, 64))(t)
	}
	for ; len(words) > 0; words = words[1:] {
		var err error
		check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k")}
		switch do := words[0]; do {
		case "away":
			n.away()
		case "back":
			n.back()
		case "at":
			n.set(storetest.Epoch + number()*1000)
		case "take", "denied":
			units := number()
			assert.ErrorIf(t, n.take(t, p, units) != (do == "take"), "%s: want %q %d before %q", p.Name(), do, units, words[1:])
		case "reserve":
			check.Weight, check.Refundable = number(), true
			reserved = append(reserved, n.reserve(t, check))
		case "cost":
			n.Settle(reserved[0].check, number(), reserved[0].source)
			reserved = reserved[1:]
		case "timeout":
			check.Weight = number()
			_, err = n.Fallback(limiter.FailLocal, []limiter.Check{check}, limiter.ErrTimeout)
		case "charge", "owe":
			check.Weight = number()
			chargeAll(n.Store, []limiter.Check{check}, map[string]limiter.Source{"charge": limiter.SourceRedis, "owe": limiter.SourceFallback}[do])
		case "reset":
			_, err = n.Reset(t.Context(), p, check.Key)
		case "forget":
			_, err = n.ResetAll(t.Context(), p.Name())
		case "spoil":
			_, err = n.shared.Command(t.Context(), 1, "hset", n.shared.RedisKey(p, check.Key), "a", "b")
		case "repaid":
			units := number()
			n.wantRepaid(t, p, units, number())
		case "lost":
			assert.Equal(t, n.lost.Load(), number(), "%s: the number of losses", p.Name())
		case "even":
			assert.ErrorIf(t, !n.ledger.isEmpty(), "%s: %d accounts are left", p.Name(), n.ledger.size.Load())
		default:
			t.Fatalf("no such step: %q", words)
		}
		assert.FatalIf(t, err != nil, "%s, %q: %v", p.Name(), words, err)
	}
}

// reserve takes an estimate: on Redis, or here while it is away.
func (n *outageNode) reserve(t *testing.T, check limiter.Check) estimate {
	t.Helper()
	want := limiter.SourceRedis
	if n.shared.Topology.AnyNode.Breaker.Open() {
		want = limiter.SourceFallback
	}
	checks := []limiter.Check{check}
	source, err := n.Decide(t.Context(), checks)
	assert.FatalIf(t, err != nil || source != want || !limiter.Allowed(checks), "%+v from %s, %v; want it from %s", checks, source, err, want)
	return estimate{checks[0], source}
}

// outageNode is a node whose Redis is away and back as the test says, on a clock of the test's.
type outageNode struct {
	*Store
	set     func(micros int64)
	settled atomic.Int64
	lost    atomic.Int64
}

// newOutageNode returns a node on a Redis that takes its time from the test. The address is that of a
// server or of a proxy before it.
func newOutageNode(t *testing.T, server *redistest.Server, address string) *outageNode {
	t.Helper()
	n := &outageNode{}
	r := stores.OpenStore(t, dial.Connection{Addresses: []string{address}, DB: server.DB, Timeout: stores.Patience}, redis.Setup{KeyFormat: limiter.KeyFormat{Prefix: "t"}, OnLost: func(error) { n.lost.Add(1) }})
	r.Scripts.Clock = stores.TestClock
	var now atomic.Int64
	n.Store = New(r, memory.NewOnClock(now.Load), Behavior{OnRepaid: func(_ string, units int64) { n.settled.Add(units) }})
	n.ledger.clock = func(string) (int64, int64) { return now.Load(), 0 }
	n.ledger.repays.Run = nil // no timer: debts leave ahead of requests alone
	admin := server.Client(t)
	n.set = func(micros int64) {
		now.Store(micros)
		assert.Must(t, admin.Set(t.Context(), "test:clock", micros, 0).Err())
	}
	return n
}

// newSharedOutageNode returns a node on the server that tests share, at the epoch.
func newSharedOutageNode(t *testing.T) *outageNode {
	t.Helper()
	server := redistest.Shared(t)
	n := newOutageNode(t, server, server.Addr)
	n.set(storetest.Epoch)
	return n
}

// away keeps requests from Redis, back sends them again.
func (n *outageNode) away() { keepOpen(n.shared) }

func (n *outageNode) back() { closeAgain(n.shared) }

// take takes units and reports whether they passed.
func (n *outageNode) take(t *testing.T, p *limiter.Policy, units int64) bool {
	t.Helper()
	return limiter.Allowed(storetest.Decide(t, n, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: units}))
}

// wantRepaid compares what is left on Redis after the node's debts were settled, and how many units they
// were.
func (n *outageNode) wantRepaid(t *testing.T, p *limiter.Policy, units, remaining int64) {
	t.Helper()
	left, err := storetest.Peek(t.Context(), n, p, "k")
	assert.ErrorIf(t, err != nil || left.Remaining != remaining, "%+v, %v; want %d left", left, err, remaining)
	assert.Equal(t, n.settled.Load(), units, "the number of units settled")
	assert.ErrorIf(t, !n.ledger.isEmpty(), "%d accounts left", n.ledger.size.Load())
}
