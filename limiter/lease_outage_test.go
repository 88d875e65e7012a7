package limiter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/kernel"
)

// TestNode_refund_lease refunds a request on several nodes of a Cluster that another one of them has denied. The
// debt that leases have raised stays.
func TestNode_refund_lease(t *testing.T) {
	t.Parallel()
	s := redisStore(t, redistest.Shared(t))
	s.set(epoch)
	p := mustPolicy(t, Settings{Name: "raised", Algorithm: GCRA, Limit: 1000, Window: time.Second, Lease: MaxLease})
	checks := []Check{{Policy: p, Key: EncodeKey("k"), Weight: 5, Refundable: true}}
	if err := s.shared.decide(context.Background(), checks); err != nil {
		t.Fatal(err)
	}
	look := Check{Policy: p, Key: EncodeKey("k"), Peek: true}
	if _, l := leaseOnRedis(s)(t, &look, kernel.Wish{Units: 50, Lasts: p.Rule().Params.LongestLease()}, 0, kernel.Receipt{}); l.Units != 50 {
		t.Fatalf("leased %+v; want 50 units", l)
	}
	s.shared.topology.anyNode.refund(0, checks)
	if got := remainingOf(t, s, p, "k"); got != 940 { // 50 units, and 10 that drain until the lease ends
		t.Errorf("%d remain; want 940", got)
	}
}

// prolong has what is held last for an hour, so that the pace of the machine does not matter.
func prolong(f *Failover) {
	for i := range f.leases.shards {
		s := &f.leases.shards[i]
		s.mu.Lock()
		for _, k := range s.busy {
			for j := range k.open {
				k.leases[j].until = clock.Now().Add(time.Hour)
			}
		}
		s.mu.Unlock()
	}
}

// TestFailover_lease_unanswered exchanges a lease by a request for more units than are left of it. Where the
// reply is lost Redis may have taken the rest back, so that nothing of it is spent. Where no question has left
// it is still held.
func TestFailover_lease_unanswered(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	exchange(t, proxy.Addr, proxy.CutNextReply, false)
	exchange(t, server.Addr, server.Kill, true)
}

// exchange has a request exchange a lease during a fault, after which the lease is held or not.
func exchange(t *testing.T, address string, fault func(), held bool) {
	t.Helper()
	client, err := NewClient(ClientOptions{Addresses: []string{address}, Timeout: 2 * time.Second, PoolSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := NewRedis(client, RedisOptions{KeyFormat: KeyFormat{Prefix: "t"}})
	t.Cleanup(func() { _ = r.Close() })
	f := NewFailover(r, NewMemory(), FailoverOptions{})
	p := mustPolicy(t, Settings{Name: "lost", Algorithm: FixedWindow, Limit: 100_000, Window: 400 * 24 * time.Hour, Lease: MaxLease})
	lendTo(t, f, p)
	prolong(f)
	before, _ := f.Leased("lost", EncodeKey("k"))
	fault()
	checks := []Check{{Policy: p, Key: EncodeKey("k"), Weight: 10_000}}
	source, err := f.Decide(context.Background(), checks)
	if err != nil || source != SourceFallback {
		t.Fatalf("decided by %s, %v; want the fallback", source, err)
	}
	if after, _ := f.Leased("lost", EncodeKey("k")); before == 0 || (after == before) != held || (after == 0) == held {
		t.Errorf("%d units of %d are held; want them held: %v", after, before, held)
	}
}

// TestFailover_lease_refill uses nine tenths of a limit, nearly all of it by leases, before Redis dies: the outage
// is no refill. The questions of a key that is decided by leases are asked in the background.
func TestFailover_lease_refill(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{FixedWindow, SlidingWindowCounter, SlidingWindowLog, GCRA} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			f := NewFailover(openRedis(t, server, time.Second), NewMemory(), FailoverOptions{})
			p := mustPolicy(t, Settings{Name: "refill", Algorithm: algorithm, Limit: 2000, Window: 24 * time.Hour, Lease: MaxLease})
			passed := map[Source]int{}
			request := func() {
				checks := []Check{{Policy: p, Key: EncodeKey("k")}}
				source, err := f.Decide(context.Background(), checks)
				if err != nil {
					t.Fatal(err)
				}
				if Allowed(checks) {
					passed[source]++
				}
			}
			for range 1800 {
				request()
				<-time.After(50 * time.Microsecond) // slower than a question, so that no request waits for one
			}
			server.Kill()
			for range 2200 {
				request()
			}
			// A bucket may drain a unit meanwhile.
			if total := passed[SourceRedis] + passed[SourceLease] + passed[SourceFallback]; total > 2001 || passed[SourceLease] < 1000 || passed[SourceFallback] == 0 {
				t.Errorf("%v passed of 2,000", passed)
			}
		})
	}
}

// TestFailover_lease_slow_answer has a node learn that Redis is fast again after one answer that was so late that
// no lease would last.
func TestFailover_lease_slow_answer(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	p := mustPolicy(t, Settings{Name: "slow", Limit: 1_000_000, Window: 10 * time.Second, Lease: MaxLease})
	other := mustPolicy(t, Settings{Name: "other", Limit: 1_000_000, Window: 24 * time.Hour})
	for name, checks := range map[string]func() []Check{
		"alone":       func() []Check { return []Check{{Policy: p, Key: EncodeKey("a")}} },
		"with others": func() []Check { return []Check{{Policy: p, Key: EncodeKey("b")}, {Policy: other, Key: EncodeKey("b")}} },
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFailover(openRedis(t, server, time.Second), NewMemory(), FailoverOptions{})
			f.leases.learnTrip(90 * time.Millisecond)
			redistest.WaitFor(t, "units are leased", func() error {
				for range 100 {
					checks := checks()
					if _, err := f.Decide(context.Background(), checks); err != nil {
						t.Fatal(err)
					}
					if units, _ := f.Leased("slow", checks[0].Key); units > 0 {
						return nil
					}
				}
				return errors.New("none are, with a round trip of " + f.leases.roundTrip().String())
			})
		})
	}
}
