package chaos

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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
	path, err := builtToxiproxy()
	if err != nil {
		t.Fatal(err)
	}
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
		if err := client.Set(t.Context(), "main", "quorum", "2").Err(); err != nil {
			t.Fatal(err)
		}
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
	redistest.WaitFor(t, "the group is whole", func() error {
		<-time.After(20 * time.Millisecond)
		return g.check()
	})
	return g.master(0)
}

// replaced waits until all sentinels have another master, and returns it.
func (g *group) replaced(t *testing.T, old int) (master int) {
	t.Helper()
	redistest.WaitFor(t, "there is another master", func() error {
		for i := range g.sentinels {
			if master = g.master(i); master < 0 || master == old {
				return fmt.Errorf("sentinel %d has %d", i, master)
			}
		}
		return nil
	})
	return master
}
