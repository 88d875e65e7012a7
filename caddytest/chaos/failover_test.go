package chaos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// pair is a master and its replica, with a sentinel.
type pair struct{ master, replica, sentinel *redistest.Server }

// startPair starts all three. The replica's clock is ahead by the given time.
func startPair(t *testing.T, ahead time.Duration) pair {
	t.Helper()
	p := startReplicated(t, ahead)
	p.sentinel = redistest.StartSentinel(t, p.master, "main", "sentinel down-after-milliseconds main 500", "sentinel failover-timeout main 5000")
	assert.WaitFor(t, "the sentinel has found the replica", func() error {
		return checkInfo(t, p.sentinel, "sentinel", "slaves=1")
	})
	return p
}

// startReplicated starts a master and its replica, without a sentinel.
func startReplicated(t *testing.T, ahead time.Duration) pair {
	t.Helper()
	p := pair{master: redistest.Start(t, "--repl-diskless-sync-delay", "0")}
	host, port, _ := strings.Cut(p.master.Addr, ":")
	follow := []string{"--replicaof", host, port}
	if ahead == 0 {
		p.replica = redistest.Start(t, follow...)
	} else {
		p.replica = redistest.StartAt(t, ahead, follow...)
	}
	assert.WaitFor(t, "the replica follows", func() error {
		return checkInfo(t, p.master, "replication", "state=online")
	})
	return p
}

// watched returns a setting that finds the master through the sentinel.
func (p pair) watched() setting {
	return setting{redis: "redis {\nmode sentinel\nmaster main\naddress " + p.sentinel.Addr + "\n}"}
}

// kill kills the master. Writes that are not replicated yet are lost, as always with Redis.
func (p pair) kill(t *testing.T) {
	t.Helper()
	p.awaitHotKey(t)
	p.master.Kill()
}

// awaitHotKey waits until the replica has the hot key's state, which changes no more once late requests of a busy
// machine have arrived.
func (p pair) awaitHotKey(t *testing.T) {
	t.Helper()
	names, _ := do(t, p.master, "keys", "rl:{hot}:*").([]any)
	assert.FatalIf(t, len(names) != 1, "the hot key is %v on the master; want one", names)
	assert.Retry(t, "the replica has the hot key", func() (again bool, seen any) {
		spent, copied := do(t, p.master, "get", names[0]), do(t, p.replica, "get", names[0])
		return spent == nil || copied != spent, fmt.Sprintf("%q differs from %q", copied, spent)
	})
}

// promoted waits until the replica is the master and has loaded the script.
func (p pair) promoted(t *testing.T) {
	t.Helper()
	assert.WaitFor(t, "the replica is the master", func() error {
		return checkInfo(t, p.replica, "replication", "role:master")
	})
	assert.WaitFor(t, "the new master decides", func() error {
		return checkInfo(t, p.replica, "commandstats", "cmdstat_eval:")
	})
}

// failOver fails over without a failure.
func (p pair) failOver(t *testing.T) {
	t.Helper()
	do(t, p.sentinel, "sentinel", "failover", "main")
}

// failingOver fails over to a replica that has the states and no script.
func failingOver(begin func(p pair, t *testing.T)) func(*testing.T, *row) {
	return func(t *testing.T, r *row) {
		p := startPair(t, 0)
		s := newStorm(t, p.watched())
		s.blow(t, func() {
			begin(p, t)
			p.promoted(t)
		})
		r.check(t, s, properties{outage: true})
	}
}

// failoverByAddress promotes a replica behind one address, whose master lives on as its replica.
func failoverByAddress(t *testing.T, r *row) {
	p := startReplicated(t, 0)
	proxy := redistest.NewProxy(t, p.master.Addr)
	s := newStorm(t, plainly(proxy.Addr))
	s.blow(t, func() {
		p.awaitHotKey(t)
		do(t, p.replica, "replicaof", "no", "one")
		host, port, _ := strings.Cut(p.replica.Addr, ":")
		do(t, p.master, "replicaof", host, port)
		proxy.Lead(p.replica.Addr)
		p.promoted(t)
	})
	r.check(t, s, properties{outage: true})
}

// masterBehind fails over to a replica whose clock is still in the window before the hot key's. The quota
// must not be refilled, neither then nor when that clock reaches the window. A failover that takes longer
// than the clock is behind shows nothing, so that another one follows, with a clock further behind.
func masterBehind(t *testing.T, r *row) {
	for behind := 10 * time.Second; behind < 2*time.Minute; behind *= 2 {
		if failsOverBehind(t, r, behind) {
			return
		}
	}
	t.Error("no failover ended while the new master's clock was in the window before")
}

// failsOverBehind returns false where the failover took too long.
func failsOverBehind(t *testing.T, r *row, behind time.Duration) bool {
	t.Helper()
	p := startPair(t, -behind)
	with := p.watched()
	caddytest.Binary(t) // building it takes time
	began, window := justBegun(time.Now())
	with.hot = "algorithm fixed_window\nwindow " + window.String()
	s := newStorm(t, with)
	s.begin(t)
	p.kill(t)
	p.promoted(t)
	s.awaitRedis(t)
	again := time.Until(began.Add(behind))
	if again < 0 {
		s.end()
		t.Logf("the failover took %v too long", -again)
		return false
	}
	t.Logf("the new master decides; by its clock the window begins in %v", again)
	<-time.After(again)
	s.hold()
	r.check(t, s, properties{outage: true})
	return true
}

// justBegun returns a window that began a moment ago and ends long after the test. Windows begin at
// multiples of their length since 1970.
func justBegun(now time.Time) (began time.Time, window time.Duration) {
	for window = 5 * time.Minute; ; window += time.Millisecond {
		if age := time.Duration(now.UnixNano()) % window; age < 50*time.Millisecond {
			return now.Add(-age), window
		}
	}
}

// checkInfo returns an error where a section of INFO lacks a text.
func checkInfo(t *testing.T, server *redistest.Server, section, text string) error {
	t.Helper()
	if info := fmt.Sprint(do(t, server, "info", section)); !strings.Contains(info, text) {
		return fmt.Errorf("%s: %s", section, info)
	}
	return nil
}

// clustered returns the global option for a Cluster, with two of the masters.
func clustered(masters []*redistest.Server) string {
	return "redis {\nmode cluster\naddress " + masters[0].Addr + " " + masters[1].Addr + "\n}"
}

// slotOf returns the slot of a client key. All states of the key are in it.
func slotOf(t *testing.T, server *redistest.Server, key string) int {
	t.Helper()
	slot := assert.NoError(strconv.Atoi(fmt.Sprint(do(t, server, "cluster", "keyslot", key))))(t)
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
	with := setting{redis: clustered(masters)}
	if !isLong() {
		with.redis += "\ntimeout 10s" // a machine that the suite shares with others is slow
	}
	s := newStorm(t, with)
	dead := ownerOf(slotOf(t, masters[0], "hot"))
	s.blow(t, func() {
		redistest.SetNodeTimeout(t, slices.Concat(masters, replicas), "1000")
		masters[dead].Kill()
		assert.WaitFor(t, "the replica is the master", func() error {
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
	share := lasting(50, 10)
	assert.ErrorIf(t, lost > sent/share, "of %d requests for keys of the other masters %d were decided elsewhere; want fewer than one in %d", sent, lost, share)
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
