package failover

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// newClusterFailover returns a leasing store on a Cluster.
func newClusterFailover(t *testing.T, servers []*redistest.Server) *Store {
	t.Helper()
	options := dial.Options{Mode: dial.Cluster, Timeout: 10 * time.Second}
	for _, s := range servers {
		options.Addresses = append(options.Addresses, s.Addr)
	}
	r := openStore(t, options, redis.Options{KeyFormat: limiter.KeyFormat{Prefix: "t"}})
	return New(r, memory.New(), Options{DenyAge: time.Second})
}

// moveSlot moves a slot with all its keys from a master to another, as redis-cli does.
func moveSlot(t *testing.T, masters []*redistest.Server, slot uint16, from, to int) {
	t.Helper()
	ctx := context.Background()
	do := func(s *redistest.Server, words ...any) {
		noError(t, s.Client(t).Do(ctx, words...).Err())
	}
	source, target := masters[from], masters[to]
	source.AwaitEpoch(t, target)
	do(target, "cluster", "setslot", slot, "importing", source.ClusterID(t))
	do(source, "cluster", "setslot", slot, "migrating", target.ClusterID(t))
	host, port, err := net.SplitHostPort(target.Addr)
	noError(t, err)
	for {
		keys := source.Client(t).ClusterGetKeysInSlot(ctx, int(slot), 100).Val()
		if len(keys) == 0 {
			break
		}
		words := []any{"migrate", host, port, "", 0, 5000, "keys"}
		for _, key := range keys {
			words = append(words, key)
		}
		do(source, words...)
	}
	for _, m := range []*redistest.Server{target, source, masters[len(masters)-from-to]} {
		do(m, "cluster", "setslot", slot, "node", target.ClusterID(t))
	}
}

// TestFailover_lease_Cluster has two nodes lease from a key whose slot moves meanwhile, with requests that
// take from a second slot too, and scripts that are dropped. In the end the slot's master has counted
// exactly what was admitted.
func TestFailover_lease_Cluster(t *testing.T) {
	t.Parallel()
	masters := redistest.StartCluster(t)
	for _, algorithm := range []string{limiter.FixedWindow, limiter.SlidingWindowLog} {
		t.Run(algorithm, func(t *testing.T) {
			load := newLeaseLoad(t, func() *Store { return newClusterFailover(t, masters) }, algorithm, "other", 12_000)
			load.workers, load.requests = 6, 2000
			slot := load.nodes[0].shared.SlotOf(limiter.EncodeKey("k"))
			redistest.FatalIf(t, slot == load.nodes[0].shared.SlotOf(load.scarce.Key),
				"the keys must be in different slots")
			done := make(chan struct{})
			go func() {
				load.run(t)
				close(done)
			}()
			from := int(slot) * len(masters) / wire.ClusterSlots
			to := (from + 1) % len(masters)
			moves := 0
			for ended := false; !ended || moves%2 == 0; moves++ { // ends on another master than at first
				moveSlot(t, masters, slot, from, to)
				from, to = to, from
				for _, m := range masters {
					m.Client(t).ScriptFlush(context.Background())
				}
				select {
				case <-done:
					ended = true
				default:
				}
			}
			load.wantExact(t)
			n := load.fallbacks.Load()
			redistest.ErrorIf(t, n > 0, "%d requests were not decided by Redis", n)
			t.Logf("%d moves", moves)
			moveSlot(t, masters, slot, from, to)
		})
	}
}

// TestFailover_lease_Cluster_failover kills the master of a key whose units are held. They may be spent, and
// the replica that takes over gets back what is left.
func TestFailover_lease_Cluster_failover(t *testing.T) {
	t.Parallel()
	masters, replicas := redistest.StartReplicatedCluster(t)
	f := newClusterFailover(t, masters)
	p := storetest.NewPolicy(t, limiter.Settings{Name: "failover", Algorithm: limiter.FixedWindow, Limit: 10_000, Window: 400 * 24 * time.Hour, Lease: limiter.MaxLease})
	lendTo(t, f, p)
	prolong(f)
	slot := f.shared.SlotOf(limiter.EncodeKey("k"))
	dead := int(slot) * len(masters) / wire.ClusterSlots
	check := limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Peek: true}
	before, _ := f.Leased(p.Name(), limiter.EncodeKey("k"))
	used := p.Capacity() - storetest.Decide(t, f.shared, check)[0].Result.Remaining
	redistest.AwaitReplica(t, replicas[dead], masters[dead])
	masters[dead].Kill()
	request := []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}}
	source, err := f.Decide(context.Background(), request)
	redistest.ErrorIf(t, source != limiter.SourceLease || err != nil, "decided by %s, %v; want the lease", source, err)
	redistest.WaitFor(t, "the replica is the master", func() error {
		if info := replicas[dead].Client(t).Info(context.Background(), "replication").Val(); !strings.Contains(info, "role:master") {
			return limiter.ErrOutage
		}
		return nil
	})
	redistest.WaitFor(t, "the replica decides", func() error {
		_, err := f.shared.Decide(context.Background(), []limiter.Check{check})
		return err
	})
	// What was held when the master died has lapsed, or is back.
	for range 500 {
		storetest.Decide(t, f, request...)
	}
	f.EndLeases()
	t.Logf("%d units were used when the master died, %d of them held", used, before)
	awaitUsed(t, f, p, used-before+501, used+501)
}
