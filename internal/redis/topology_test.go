package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// The addresses of masters that are never contacted: reserved for documentation.
const (
	masterA = "192.0.2.1:6379"
	masterB = "192.0.2.2:6379"
)

// refused is a failure that opens a breaker at once.
var refused = &limiter.UndecidedError{Kind: "refused", Err: errors.New("refused")}

// testCluster is a store on a Cluster whose slots the test assigns. It sends nothing.
type testCluster struct {
	*redis.Store
	stores.Reports

	owners atomic.Pointer[[]goredis.ClusterSlot]
}

// newTestCluster assigns the slots. The client has not read them yet.
func newTestCluster(t *testing.T, owners ...goredis.ClusterSlot) *testCluster {
	t.Helper()
	a := &testCluster{}
	a.owners.Store(&owners)
	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs:        []string{masterA},
		ClusterSlots: func(context.Context) ([]goredis.ClusterSlot, error) { return *a.owners.Load(), nil },
	})
	a.Store = redis.New(client, redis.Setup{KeyFormat: limiter.KeyFormat{Prefix: "rl"}})
	a.Topology.Send = func(context.Context, *redis.Node, []*redis.Call) bool { return false }
	a.Listen(a.Store)
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// owned returns slots that a master has.
func owned(first, last int, master string) goredis.ClusterSlot {
	return goredis.ClusterSlot{Start: first, End: last, Nodes: []goredis.ClusterNode{{Addr: master}}}
}

// assign assigns the slots anew and waits until the client has read them.
func (a *testCluster) assign(t *testing.T, owners ...goredis.ClusterSlot) {
	t.Helper()
	a.owners.Store(&owners)
	assert.WaitFor(t, "the client knows the new masters", func() error {
		a.Topology.Reload()
		for _, o := range owners {
			if got := a.Topology.MasterOf(uint16(o.Start)).Options().Addr; got != o.Nodes[0].Addr {
				return fmt.Errorf("slot %d is of %s", o.Start, got)
			}
		}
		return nil
	})
}

// wantReported compares whether a master fails, and what was reported so far.
func (a *testCluster) wantReported(t *testing.T, failing bool, reported string) {
	t.Helper()
	if got, _ := a.Topology.Failing(); got != failing || a.String() != reported {
		t.Errorf("failing %v, reported %v; want %v and %q", got, &a.Reports, failing, reported)
	}
}

// nodes returns those of some slots, each once.
func (a *testCluster) nodes(first, last uint16) []*redis.Node {
	var found []*redis.Node
	for slot := first; slot <= last; slot++ {
		if s := a.Topology.To(slot); !slices.Contains(found, s) {
			found = append(found, s)
		}
	}
	return found
}

func TestSlotKeys(t *testing.T) {
	t.Parallel()
	keys := redis.SlotKeys()
	for slot := range redis.ClusterSlots {
		got := redis.SlotOfTag([]byte(keys[2*slot:][:2]))
		assert.FatalIf(t, int(got) != slot, "the key of slot %d lies in %d", slot, got)
	}
}

func TestTopology_to(t *testing.T) {
	t.Parallel()
	a := newTestCluster(t, owned(0, 99, masterA), owned(100, 16383, masterB))
	s := a.Topology.To(0)
	assert.FatalIf(t, s != a.Topology.AnyNode, "before, a slot is not that of the whole")
	a.Topology.AnyNode.Breaker.Failure(refused)
	a.Topology.AnyNode.Failed()
	assert.Retry(t, "a failure has the masters asked for", func() (again bool, seen any) {
		return !a.Topology.Known.Load() || a.Topology.AnyNode.Breaker.Open(), "not known"
	})
	for master, slots := range map[string][2]uint16{masterA: {0, 99}, masterB: {100, 300}} {
		of := a.nodes(slots[0], slots[1])
		client, _ := of[0].Client.(*goredis.Client)
		if len(of) != 1 || client == nil || client.Options().Addr != master {
			t.Errorf("the slots of %s have %d servers, the first at %v", master, len(of), of[0].Client)
		}
	}
	a.Topology.AnyNode.Breaker.Failure(refused)                   // of a request that was in flight, when it is not in use any more
	stores.WaitReported(t, &a.Reports, "outage:refused recovery") // by a probe of a master
	a.wantReported(t, false, "outage:refused recovery")
}

func TestTopology_moved_slot(t *testing.T) {
	t.Parallel()
	a := newTestCluster(t, owned(0, 8191, masterA), owned(8192, 16383, masterB))
	a.Topology.Discover()
	first := a.Topology.To(0)
	a.nodes(1, 20)
	a.assign(t, owned(0, 0, masterB), owned(1, 8191, masterA), owned(8192, 16383, masterB))
	first.Breaker.Failure(refused)
	s := a.Topology.To(0)
	assert.ErrorIf(t, s == first, "the slot that has moved is still asked of its old master")
	of := a.nodes(1, 20)
	assert.ErrorIf(t, len(of) != 1 || of[0] != first, "the other slots have %d servers", len(of))
	a.wantReported(t, true, "outage:refused")
}

func TestTopology_outages(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func(*redis.Node){
		"a probe is under way":   func(s *redis.Node) { s.Breaker.Close() },
		"a request is under way": func(s *redis.Node) { s.Report(redis.OpTake, 0, nil, clock.Now(), refused) },
	} {
		t.Run(name, func(t *testing.T) {
			a := newTestCluster(t, owned(0, 16383, masterA))
			a.Topology.Discover()
			a.nodes(0, 2)
			gone := a.Topology.To(0)
			gone.Breaker.Failure(refused)
			a.assign(t, owned(0, 16383, masterB)) // a replica has been promoted
			a.Topology.To(0)
			late(gone)
			of := a.nodes(0, 2)
			assert.ErrorIf(t, len(of) != 1 || of[0] == gone, "the slots have %d servers", len(of))
			stores.WaitReported(t, &a.Reports, "outage:refused recovery") // by a probe of the promoted one
			a.wantReported(t, false, "outage:refused recovery")
			a.Topology.To(0).Breaker.Failure(refused)
			a.wantReported(t, true, "outage:refused recovery outage:refused")
		})
	}
}

func TestTopology_returning_master(t *testing.T) {
	t.Parallel()
	a := newTestCluster(t, owned(0, 16383, masterA))
	a.Topology.Discover()
	first := a.nodes(0, 9)[0]
	first.Breaker.Failure(refused)
	a.assign(t, owned(0, 16383, masterB))
	a.Topology.To(0)
	a.assign(t, owned(0, 16383, masterA))
	a.Topology.To(0).Breaker.Failure(refused)
	of := a.nodes(0, 9)
	assert.FatalIf(t, len(of) != 1 || of[0] == first, "the slots have %d servers", len(of))
	of[0].Breaker.Failure(refused)
	failing, _ := a.Topology.Failing()
	assert.ErrorIf(t, !failing, "it fails, and that is not known")
}

func TestRedis_enqueueGroup_moved_slot(t *testing.T) {
	t.Parallel()
	a := newTestCluster(t, owned(0, 16383, masterA))
	a.Topology.Discover()
	p := storetest.DayPolicy(t, "moved", limiter.SlidingWindowLog, 10)
	group := a.GroupBySlot([]limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}})[0]
	assert.Must(t, a.EnqueueGroup(context.Background(), group, redis.OpPeek, clock.Now().Add(time.Minute)))
	before := group.Node
	before.Breaker.Failure(refused)
	a.assign(t, owned(0, 16383, masterB))
	err := a.EnqueueGroup(context.Background(), group, redis.OpTake|redis.WithReceipt, clock.Now().Add(time.Minute))
	assert.ErrorIf(t, err != nil || group.Node == before, "error %v, sent to the old master: %v", err, group.Node == before)
}
