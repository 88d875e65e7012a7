package failover

import (
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// play plays the steps of an outage: "away" and "back", "at" so many milliseconds, "take" and "denied" so many units,
// "settle" an estimate of the outage to a cost, "charge" what a request of Redis cost and "owe" what one of the outage
// did, "reset" the key, "forget" all keys of the policy. "repaid" compares the units that were settled since the first
// step, and those that are left.
func (n *outageNode) play(t *testing.T, p *limiter.Policy, steps string) {
	t.Helper()
	n.settled.Store(0)
	words := strings.Fields(steps)
	number := func() int64 {
		t.Helper()
		words = words[1:]
		value, err := strconv.ParseInt(words[0], 10, 64)
		noError(t, err)
		return value
	}
	for ; len(words) > 0; words = words[1:] {
		var err error
		switch do := words[0]; do {
		case "away":
			n.away()
		case "back":
			n.back()
		case "at":
			n.set(storetest.Epoch + number()*1000)
		case "take", "denied":
			if units := number(); n.take(t, p, units) != (do == "take") {
				t.Errorf("%s: want %q %d before %q", p.Name(), do, units, words[1:])
			}
		case "settle":
			checks := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: number(), Refundable: true}}
			source := limiter.Source("")
			if source, err = n.Decide(t.Context(), checks); source != limiter.SourceFallback || !limiter.Allowed(checks) {
				t.Fatal(source, checks, err)
			}
			n.Settle(checks[0], number(), source)
		case "charge", "owe":
			source := map[string]limiter.Source{"charge": limiter.SourceRedis, "owe": limiter.SourceFallback}[do]
			chargeAll(n.Store, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: number()}}, source)
		case "reset":
			_, err = n.Reset(t.Context(), p, limiter.EncodeKey("k"))
		case "forget":
			_, err = n.ResetAll(t.Context(), p.Name())
		case "repaid":
			units := number()
			n.wantRepaid(t, p, units, number())
		default:
			err = errors.New("no such step")
		}
		redistest.FatalIf(t, err != nil, "%+v %+v", words, err)
	}
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
	r := openStore(t, dial.Options{Addresses: []string{address}, DB: server.DB, Timeout: 10 * time.Second}, redis.Options{KeyFormat: limiter.KeyFormat{Prefix: "t"}, OnLost: func(error) { n.lost.Add(1) }})
	r.Scripts.Clock = testClockFragment
	var now atomic.Int64
	n.Store = New(r, memory.NewOnClock(now.Load), Options{OnRepaid: func(_ string, units int64) { n.settled.Add(units) }})
	n.ledger.clock = func(string) (int64, int64) { return now.Load(), 0 }
	n.ledger.repays.Run = nil // no timer: debts leave ahead of requests alone
	admin := server.Client(t)
	n.set = func(micros int64) {
		now.Store(micros)
		noError(t, admin.Set(t.Context(), "test:clock", micros, 0).Err())
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

func (n *outageNode) back() { n.shared.Topology.AnyNode.Breaker.Close() }

// take takes units and reports whether they passed.
func (n *outageNode) take(t *testing.T, p *limiter.Policy, units int64) bool {
	t.Helper()
	return limiter.Allowed(storetest.Decide(t, n, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: units}))
}

// wantRepaid compares what is left on Redis after the node's debts were settled, and how many units they
// were.
func (n *outageNode) wantRepaid(t *testing.T, p *limiter.Policy, units, remaining int64) {
	t.Helper()
	left, err := limiter.Peek(t.Context(), n, p, "k")
	redistest.ErrorIf(t, err != nil || left.Remaining != remaining, "%+v, %v; want %d left", left, err, remaining)
	got := n.settled.Load()
	redistest.ErrorIf(t, got != units, "%d units settled; want %d", got, units)
	redistest.ErrorIf(t, !n.ledger.isEmpty(), "%d accounts left", n.ledger.size.Load())
}
