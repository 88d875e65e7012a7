package failover

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
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

// TestRepayment_flapping has Redis refuse writes again and again under load. Requests and settlements that
// it refuses have certainly not run, so that each unit that two nodes admitted arrives once.
func TestRepayment_flapping(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	nodes := []*Store{
		New(openRedis(t, server, 10*time.Second), memory.New(), Options{}),
		New(openRedis(t, server, 10*time.Second), memory.New(), Options{}),
	}
	policies := []*limiter.Policy{
		storetest.DayPolicy(t, "window", limiter.FixedWindow, 1_000_000), storetest.DayPolicy(t, "counter", limiter.SlidingWindowCounter, 1_000_000),
		storetest.DayPolicy(t, "log", limiter.SlidingWindowLog, 100_000),
	}
	const keys, requests, flaps = 4, 3000, 20
	var admitted [3][keys]atomic.Int64
	var fallbacks, sent atomic.Int64
	var load sync.WaitGroup
	for client := range 4 {
		load.Go(func() {
			for range requests {
				p, k, units := rand.IntN(3), rand.IntN(keys), rand.Int64N(3)+1
				checks := []limiter.Check{{Policy: policies[p], Key: limiter.EncodeKey(fmt.Sprint(k)), Weight: units}}
				source, err := nodes[client%2].Decide(t.Context(), checks)
				if err != nil || !limiter.Allowed(checks) {
					t.Errorf("%v, %+v", err, checks)
					return
				}
				if source == limiter.SourceFallback {
					fallbacks.Add(1)
				}
				admitted[p][k].Add(units)
				sent.Add(1)
			}
		})
	}
	admin := server.Client(t)
	for flap := range flaps {
		redistest.Retry(t, "more requests were sent", func() (again bool, seen any) {
			got := sent.Load()
			return got < int64(4*requests*(flap+1)/(flaps+1)), fmt.Sprintf("%d", got)
		})
		memory := "1"
		if flap%2 == 1 {
			memory = "0"
		}
		noError(t, admin.ConfigSet(t.Context(), "maxmemory", memory).Err())
		if memory == "0" { // without waiting for the probe
			for _, n := range nodes {
				n.shared.Topology.AnyNode.Breaker.Close()
			}
		}
	}
	load.Wait()
	redistest.WaitFor(t, "all debts are settled", func() error {
		for _, n := range nodes {
			if !n.ledger.isEmpty() {
				return fmt.Errorf("%d accounts are left", n.ledger.size.Load())
			}
		}
		return nil
	})
	for p, policy := range policies {
		for k := range keys {
			var left limiter.Result
			var err error
			for _, n := range nodes { // each answers after its own settlements
				left, err = limiter.Peek(t.Context(), n, policy, fmt.Sprint(k))
			}
			if got, want := policy.Capacity()-left.Remaining, admitted[p][k].Load(); err != nil || got != want {
				t.Errorf("%s, key %d: Redis has counted %d, %v; want %d", policy.Name(), k, got, err, want)
			}
		}
	}
	redistest.ErrorIf(t, fallbacks.Load() == 0, "Redis decided all requests")
	t.Logf("%d of %d requests were decided by the nodes", fallbacks.Load(), sent.Load())
}

// TestRepayment_paced settles keys that no request asks for, and gives those up that were reset or have
// decayed.
func TestRepayment_paced(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	var settled atomic.Int64
	f := New(openRedis(t, server, 10*time.Second), memory.New(), Options{OnRepaid: func(_ string, units int64) { settled.Add(units) }})
	p := storetest.DayPolicy(t, "paced", limiter.SlidingWindowCounter, 10)
	short := storetest.NewPolicy(t, limiter.Settings{Name: "short", Algorithm: limiter.FixedWindow, Limit: 10, Window: time.Millisecond})
	keepOpen(f.shared)
	const keys = 500
	for i := range keys {
		for _, policy := range []*limiter.Policy{p, short} {
			result, err := limiter.Allow(t.Context(), f, policy, fmt.Sprint(i))
			redistest.FatalIf(t, err != nil || !result.Passes(), "%+v %+v", result, err)
		}
	}
	_, err := f.shared.Reset(t.Context(), p, limiter.EncodeKey("none"))
	noError(t, err)
	redistest.NoError(f.Reset(t.Context(), p, limiter.EncodeKey("7")))(t)
	began := time.Now()
	f.shared.Topology.AnyNode.Breaker.Close()
	redistest.Retry(t, "all debts are settled", func() (again bool, seen any) {
		left := f.ledger.size.Load()
		return left > 0 || settled.Load() < keys-1, fmt.Sprintf("%d accounts left, %d settled", left, settled.Load())
	})
	took, least := time.Since(began), (keys/repaidPerSpan-1)*repaySpan
	redistest.ErrorIf(t, took < least, "settled within %v; want at least %v", took, least)
	redistest.Equal(t, settled.Load(), keys-1, "the number of units settled")
	for _, i := range []int{0, 7, keys - 1} {
		want := int64(9)
		if i == 7 {
			want = 10
		}
		wantRemaining(t, f, p, fmt.Sprint(i), want)
	}
	redistest.Retry(t, "the timer has ended", func() (again bool, seen any) {
		return f.ledger.repays.IsSet(), "it runs"
	})
}

// TestRepayment_off forgives outages.
func TestRepayment_off(t *testing.T) {
	t.Parallel()
	f := New(openRedis(t, redistest.Shared(t), 10*time.Second), memory.New(), Options{ForgiveOutages: true})
	p := storetest.DayPolicy(t, "off", limiter.FixedWindow, 10)
	keepOpen(f.shared)
	redistest.NoError(limiter.Allow(t.Context(), f, p, "k"))(t)
	f.shared.Topology.AnyNode.Breaker.Close()
	wantRemaining(t, f, p, "k", 10)
}

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
		value := redistest.NoError(strconv.ParseInt(words[0], 10, 64))(t)
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
	redistest.Equal(t, n.settled.Load(), units, "the number of units settled")
	redistest.ErrorIf(t, !n.ledger.isEmpty(), "%d accounts left", n.ledger.size.Load())
}
