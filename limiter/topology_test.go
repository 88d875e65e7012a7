package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// The masters of tests that ask none: addresses for documentation.
const (
	masterA = "192.0.2.1:6379"
	masterB = "192.0.2.2:6379"
)

// refused is a failure that opens a breaker at once.
var refused = &UndecidedError{Kind: "refused", Err: errors.New("refused")}

// atlas is a store on a Cluster whose slots the test hands out. It asks nobody.
type atlas struct {
	*Redis
	told

	owners atomic.Pointer[[]redis.ClusterSlot]
}

// newAtlas hands out the slots. Nobody knows yet.
func newAtlas(t *testing.T, owners ...redis.ClusterSlot) *atlas {
	t.Helper()
	a := &atlas{}
	a.owners.Store(&owners)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:        []string{masterA},
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return *a.owners.Load(), nil },
	})
	a.Redis = NewRedis(client, RedisOptions{Timeout: time.Second, KeyFormat: KeyFormat{Prefix: "rl"}})
	a.topology.send = func(context.Context, *node, []*call) bool { return false }
	a.listen(a.Redis)
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// owned are slots that a master has.
func owned(first, last int, master string) redis.ClusterSlot {
	return redis.ClusterSlot{Start: first, End: last, Nodes: []redis.ClusterNode{{Addr: master}}}
}

// handOut hands out the slots anew and waits until the client knows.
func (a *atlas) handOut(t *testing.T, owners ...redis.ClusterSlot) {
	t.Helper()
	a.owners.Store(&owners)
	redistest.WaitFor(t, "the client knows the new masters", func() error {
		a.topology.reload()
		for _, o := range owners {
			if got := a.topology.masterOf(uint16(o.Start)).Options().Addr; got != o.Nodes[0].Addr {
				return fmt.Errorf("slot %d is of %s", o.Start, got)
			}
		}
		return nil
	})
}

// servers are those of some slots, each once.
func (a *atlas) servers(first, last uint16) []*node {
	var found []*node
	for slot := first; slot <= last; slot++ {
		if s := a.topology.to(slot); !slices.Contains(found, s) {
			found = append(found, s)
		}
	}
	return found
}

func TestSlotKeys_lie_in_their_slots(t *testing.T) {
	keys := slotKeys()
	for slot := range clusterSlots {
		if got := slotOfTag([]byte(keys[2*slot:][:2])); int(got) != slot {
			t.Fatalf("the key of slot %d lies in %d", slot, got)
		}
	}
}

func TestRoutes_lead_to_each_master_once_the_masters_are_known(t *testing.T) {
	a := newAtlas(t, owned(0, 99, masterA), owned(100, 16383, masterB))
	if s := a.topology.to(0); s != a.topology.anyNode {
		t.Fatal("before, a slot is not that of the whole")
	}
	a.topology.anyNode.breaker.failure(refused)
	a.topology.anyNode.failed()
	redistest.WaitFor(t, "a failure has the masters asked for", func() error {
		if !a.topology.known.Load() || a.topology.loading.Load() {
			return errors.New("not known")
		}
		return nil
	})
	for master, slots := range map[string][2]uint16{masterA: {0, 99}, masterB: {100, 300}} {
		of := a.servers(slots[0], slots[1])
		client, _ := of[0].client.(*redis.Client)
		if len(of) != 1 || client == nil || client.Options().Addr != master {
			t.Errorf("the slots of %s have %d servers, the first at %v", master, len(of), of[0].client)
		}
	}
	a.topology.anyNode.breaker.failure(refused) // of a request that was under way
	if failing, _ := a.topology.failing(); failing || len(a.ended) != 1 {
		t.Errorf("failing %v, told %+v, though nobody asks the whole any more", failing, a.told)
	}
}

func TestRoutes_keep_one_server_for_a_master_that_loses_a_slot(t *testing.T) {
	a := newAtlas(t, owned(0, 8191, masterA), owned(8192, 16383, masterB))
	a.topology.discover()
	first := a.topology.to(0)
	a.servers(1, 20)
	a.handOut(t, owned(0, 0, masterB), owned(1, 8191, masterA), owned(8192, 16383, masterB))
	first.breaker.failure(refused)
	if s := a.topology.to(0); s == first {
		t.Error("the slot that has moved is still asked of its old master")
	}
	if of := a.servers(1, 20); len(of) != 1 || of[0] != first {
		t.Errorf("the other slots have %d servers", len(of))
	}
	if failing, _ := a.topology.failing(); !failing || len(a.ended) != 0 {
		t.Errorf("failing %v, told %+v, though the master still fails", failing, a.told)
	}
}

func TestRoutes_count_outages_of_masters_that_were_replaced(t *testing.T) {
	for name, late := range map[string]func(*node){
		"a probe is under way":   func(s *node) { s.breaker.close() },
		"a request is under way": func(s *node) { s.report(opTake, 0, nil, now(), refused) },
	} {
		t.Run(name, func(t *testing.T) {
			a := newAtlas(t, owned(0, 16383, masterA))
			a.topology.discover()
			a.servers(0, 2)
			gone := a.topology.to(0)
			gone.breaker.failure(refused)
			a.handOut(t, owned(0, 16383, masterB)) // a replica has been promoted
			a.topology.to(0)
			late(gone)
			if of := a.servers(0, 2); len(of) != 1 || of[0] == gone {
				t.Errorf("the slots have %d servers", len(of))
			}
			if failing, _ := a.topology.failing(); failing || len(a.began) != 1 || len(a.ended) != 1 {
				t.Errorf("after the first outage: failing %v, told %+v", failing, a.told)
			}
			a.topology.to(0).breaker.failure(refused)
			if failing, _ := a.topology.failing(); !failing || len(a.began) != 2 || len(a.ended) != 1 {
				t.Errorf("in the second outage: failing %v, told %+v", failing, a.told)
			}
		})
	}
}

func TestRoutes_know_the_server_of_a_master_that_comes_back(t *testing.T) {
	a := newAtlas(t, owned(0, 16383, masterA))
	a.topology.discover()
	first := a.servers(0, 9)[0]
	first.breaker.failure(refused)
	a.handOut(t, owned(0, 16383, masterB))
	a.topology.to(0)
	a.handOut(t, owned(0, 16383, masterA))
	a.topology.to(0).breaker.failure(refused)
	of := a.servers(0, 9)
	if len(of) != 1 || of[0] == first {
		t.Fatalf("the slots have %d servers", len(of))
	}
	of[0].breaker.failure(refused)
	if failing, _ := a.topology.failing(); !failing {
		t.Error("it fails, and that is not known")
	}
}

func TestAcross_charges_where_the_slot_is_now(t *testing.T) {
	a := newAtlas(t, owned(0, 16383, masterA))
	a.topology.discover()
	p := dayPolicy(t, "moved", "sliding_window_log", 10)
	part := a.groupBySlot([]Check{{Policy: p, Key: "k", Weight: 1}})[0]
	if err := a.enqueueGroup(part, opPeek); err != nil {
		t.Fatal(err)
	}
	looked := part.node
	looked.breaker.failure(refused)
	a.handOut(t, owned(0, 16383, masterB))
	if err := a.enqueueGroup(part, opReserve); err != nil || part.node == looked {
		t.Errorf("error %v, asked the old master: %v", err, part.node == looked)
	}
}
