package chaos

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// group is a master and two replicas, each behind a Toxiproxy whose address it announces, and three sentinels.
type group struct {
	servers   []*redistest.Server
	clients   []*redis.Client // of the servers, past the proxies
	proxies   []*redistest.Toxiproxy
	sentinels []*redis.SentinelClient
	addresses []string // of the sentinels
}

// startGroup starts all nine processes. The first server is the master.
func startGroup(t *testing.T) *group {
	t.Helper()
	path := assert.NoError(builtToxiproxy())(t)
	g := &group{}
	for i := range 3 {
		server := redistest.Start(t, "--repl-diskless-sync-delay", "0")
		g.servers = append(g.servers, server)
		g.clients = append(g.clients, server.Client(t))
		g.proxies = append(g.proxies, redistest.StartToxiproxy(t, path, server.Addr))
		g.join(t, i, 0)
	}
	for range 3 {
		s := redistest.StartSentinel(t, &redistest.Server{Addr: g.proxies[0].Addr}, "main",
			"sentinel down-after-milliseconds main 500", "sentinel failover-timeout main 3000", "sentinel parallel-syncs main 2")
		client := redis.NewSentinelClient(&redis.Options{Addr: s.Addr})
		t.Cleanup(func() { _ = client.Close() })
		assert.Must(t, client.Set(t.Context(), "main", "quorum", "2").Err())
		g.sentinels, g.addresses = append(g.sentinels, client), append(g.addresses, s.Addr)
	}
	g.settled(t)
	return g
}

// option returns the lines of the global option that lead to the master.
func (g *group) option() string {
	return "redis {\nmode sentinel\nmaster main\naddress " + strings.Join(g.addresses, " ") + "\n}"
}

// join has a server announce its proxy, and follow a master unless it is that one.
func (g *group) join(t *testing.T, i, master int) {
	t.Helper()
	host, port, _ := net.SplitHostPort(g.proxies[i].Addr)
	do(t, g.servers[i], "config", "set", "replica-announce-ip", host, "replica-announce-port", port)
	if i != master {
		host, port, _ = net.SplitHostPort(g.proxies[master].Addr)
		do(t, g.servers[i], "replicaof", host, port)
	}
}

// master returns the server that a sentinel calls the master, or -1.
func (g *group) master(sentinel int) int {
	at, err := g.sentinels[sentinel].GetMasterAddrByName(context.Background(), "main").Result()
	if err != nil || len(at) != 2 {
		return -1
	}
	for i, p := range g.proxies {
		if p.Addr == net.JoinHostPort(at[0], at[1]) {
			return i
		}
	}
	return -1
}

// check returns an error unless all sentinels know of each other and of the same sound master, and both other
// servers follow it.
func (g *group) check() error {
	master := g.master(0)
	for i, s := range g.sentinels {
		about, err := s.Master(context.Background(), "main").Result()
		if err != nil {
			return err
		}
		if g.master(i) != master || master < 0 || about["flags"] != "master" || about["num-other-sentinels"] != "2" || about["num-slaves"] != "2" {
			return fmt.Errorf("sentinel %d has master %d of %d, %v", i, g.master(i), master, about)
		}
	}
	info, err := g.clients[master].Info(context.Background(), "replication").Result()
	if err != nil || !strings.Contains(info, "role:master") || strings.Count(info, "state=online") != 2 {
		return fmt.Errorf("the master: %s, %w", info, err)
	}
	return nil
}

// settled waits until the group is whole and returns its master.
func (g *group) settled(t *testing.T) (master int) {
	t.Helper()
	assert.WaitFor(t, "the group is whole", func() error {
		<-time.After(20 * time.Millisecond)
		return g.check()
	})
	return g.master(0)
}

// replaced waits until all sentinels have another master, and returns it.
func (g *group) replaced(t *testing.T, old int) (master int) {
	t.Helper()
	assert.WaitFor(t, "there is another master", func() error {
		for i := range g.sentinels {
			if master = g.master(i); master < 0 || master == old {
				return fmt.Errorf("sentinel %d has %d", i, master)
			}
		}
		return nil
	})
	return master
}

// promotions returns when sentinels have promoted replicas so far. Each failover promotes one. On a busy machine a
// fault may have several: sentinels that do not know of each other's failover promote two replicas of one master.
func (g *group) promotions(t *testing.T) func() []time.Time {
	t.Helper()
	var mu sync.Mutex
	var seen []time.Time
	for _, sentinel := range g.sentinels {
		events := sentinel.Subscribe(context.Background(), "+promoted-slave") // of the sentinel that leads the failover
		t.Cleanup(func() { _ = events.Close() })
		assert.NoError(events.Receive(t.Context()))(t)
		go func() {
			for range events.Channel() {
				mu.Lock()
				seen = append(seen, time.Now())
				mu.Unlock()
			}
		}()
	}
	return func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

// soakFault is what happens while all features are in use.
type soakFault struct {
	name   string
	happen func(t *testing.T, s *soak, master int)
}

// soakFaults begin with that of the short soak.
var soakFaults = []soakFault{
	{"master killed, a node reloaded and another one restarted", func(t *testing.T, s *soak, master int) {
		s.group.servers[master].Kill()
		s.reload(t, 0)
		successor := s.group.replaced(t, master)
		s.group.servers[master].Run(t)
		s.group.join(t, master, successor)
		s.restart(t, 1, syscall.SIGTERM)
	}},
	{"failover by command", func(t *testing.T, s *soak, master int) {
		assert.Retry(t, "the master is replaced", func() (again bool, seen any) { // an aborted failover is not begun again
			err := s.group.sentinels[0].Failover(t.Context(), "main").Err() // one under way is an error
			<-time.After(time.Second)
			return s.group.master(0) == master, err
		})
		s.group.replaced(t, master)
	}},
	{"master paused shortly", func(t *testing.T, s *soak, master int) {
		s.group.servers[master].Pause(t)
		<-time.After(300 * time.Millisecond)
		s.group.servers[master].Resume(t)
	}},
	{"master paused until it is replaced", func(t *testing.T, s *soak, master int) {
		s.group.servers[master].Pause(t)
		s.group.replaced(t, master)
		s.group.servers[master].Resume(t)
	}},
	{"latency 50 ms", poisonedFor(time.Second, onReplies("latency", "latency", 50))},
	{"latency 300 ms", poisonedFor(time.Second, onReplies("latency", "latency", 300))},
	{"connections reset", poisonedFor(300*time.Millisecond, onReplies("reset_peer", "timeout", 0))},
	{"replies cut off", poisonedFor(time.Second, onReplies("limit_data", "bytes", 2_010))},
	{"connections killed by CLIENT KILL", func(t *testing.T, s *soak, master int) {
		for range 10 {
			do(t, s.group.servers[master], "client", "kill", "type", "normal")
			<-time.After(50 * time.Millisecond)
		}
	}},
	{"all nodes reloaded", func(t *testing.T, s *soak, _ int) {
		for i := range s.nodes {
			s.reload(t, i)
		}
	}},
	{"node killed and started", func(t *testing.T, s *soak, _ int) { s.restart(t, 2, syscall.SIGKILL) }},
	{"master killed", func(t *testing.T, s *soak, master int) {
		s.group.servers[master].Kill()
		successor := s.group.replaced(t, master)
		s.group.servers[master].Run(t)
		s.group.join(t, master, successor)
	}},
}

// poisonedFor adds a toxic to the master's connections, those of sentinels and replicas included.
func poisonedFor(span time.Duration, toxic redistest.Toxic) func(*testing.T, *soak, int) {
	return func(t *testing.T, s *soak, master int) {
		s.group.proxies[master].Poison(t, toxic)
		<-time.After(span)
		s.group.proxies[master].Cure(t)
	}
}

// heal waits until the group is whole and Redis decides on all nodes, whose overrides hold.
func (s *soak) heal(t *testing.T) {
	t.Helper()
	s.group.settled(t)
	assert.WaitFor(t, "Redis decides on all nodes", func() error {
		s.group.settled(t)
		for i := range s.nodes {
			n := s.nodes[i].Load()
			for range 4 {
				if a := n.Get(t, "/ready"); a.Body != "redis" {
					return fmt.Errorf("node %d: %v", i, a)
				}
			}
		}
		return nil
	})
}
