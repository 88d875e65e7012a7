package chaos

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// clustered returns the global option for a Cluster, with two of the masters.
func clustered(masters []*redistest.Server) string {
	return "redis {\nmode cluster\naddress " + masters[0].Addr + " " + masters[1].Addr + "\n}"
}

// slotOf returns the slot of a client key. All states of the key are in it.
func slotOf(t *testing.T, server *redistest.Server, key string) int {
	t.Helper()
	slot, err := strconv.Atoi(fmt.Sprint(do(t, server, "cluster", "keyslot", key)))
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

// ownerOf returns the master of a slot in a new Cluster of three, which have a third each.
func ownerOf(slot int) int {
	const slots = 16384
	for owner := range 3 {
		if slot < slots*(owner+1)/3 {
			return owner
		}
	}
	return -1
}

// clusterMasterKilled kills the master of the hot key. Its replica takes over. The keys of the other
// masters are not affected.
func clusterMasterKilled(t *testing.T, r *row) {
	masters, replicas := redistest.StartReplicatedCluster(t)
	s := newStorm(t, setting{redis: clustered(masters)})
	dead := ownerOf(slotOf(t, masters[0], "hot"))
	s.blow(t, func() {
		masters[dead].Kill()
		redistest.WaitFor(t, "the replica is the master", func() error {
			return checkInfo(t, replicas[dead], "replication", "role:master")
		})
	})
	r.check(t, s, properties{outage: true})
	sent, lost := 0, 0
	alive := masters[(dead+1)%len(masters)]
	for big := range bigKeys {
		if ownerOf(slotOf(t, alive, "k"+strconv.Itoa(big))) != dead {
			sent, lost = sent+r.bigSent[big], lost+r.bigLost[big]
		}
	}
	t.Logf("of %d requests for keys of the other masters %d were decided elsewhere", sent, lost)
	if share := lasting(50, 10); lost > sent/share {
		t.Errorf("of %d requests for keys of the other masters %d were decided elsewhere; want fewer than one in %d", sent, lost, share)
	}
}

// slotMigrated moves the hot key's slot to another master and back, again and again, as in a Cluster
// that grows. The count moves with the slot.
func slotMigrated(t *testing.T, r *row) {
	masters := redistest.StartCluster(t)
	with := exactly("")
	with.redis = clustered(masters) + "\ntimeout 10s"
	s := newStorm(t, with)
	slot := slotOf(t, masters[0], "hot")
	from := ownerOf(slot)
	to := (from + 1) % len(masters)
	moves := 0
	s.blow(t, func() {
		s.repeat(100*time.Millisecond, func() {
			migrate(t, masters, slot, from, to)
			from, to, moves = to, from, moves+1
		})
	})
	r.check(t, s, properties{})
	t.Logf("the slot was moved %d times", moves)
	s.countsOnce(t)
}

// migrate moves a slot with all its keys, in the order of the Cluster's specification. Between its
// steps requests find their key on the way.
func migrate(t *testing.T, masters []*redistest.Server, slot, from, to int) {
	t.Helper()
	source, target := masters[from], masters[to]
	source.AwaitEpoch(t, target)
	do(t, target, "cluster", "setslot", slot, "importing", source.ClusterID(t))
	do(t, source, "cluster", "setslot", slot, "migrating", target.ClusterID(t))
	pause := func() { <-time.After(10 * time.Millisecond) }
	pause()
	host, port, _ := strings.Cut(target.Addr, ":")
	for {
		keys, _ := do(t, source, "cluster", "getkeysinslot", slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		do(t, source, append([]any{"migrate", host, port, "", 0, 5000, "keys"}, keys...)...)
	}
	pause()
	for _, m := range []*redistest.Server{target, source, masters[3-from-to]} {
		do(t, m, "cluster", "setslot", slot, "node", target.ClusterID(t))
	}
}
