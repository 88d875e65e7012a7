package redistest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// patient is the node timeout of a Cluster that has formed: a server that stands still on a busy machine is not dead.
const patient = "30000"

// StartCluster starts a Cluster of three masters and returns them. Its bus has the ports 10,000 above those of the
// servers. The others do not find out that one is dead, see [SetNodeTimeout].
func StartCluster(t testing.TB) []*Server {
	t.Helper()
	masters := make([]*Server, 3)
	for i := range masters {
		masters[i] = startClusterServer(t)
	}
	formCluster(t, masters)
	SetNodeTimeout(t, masters, patient)
	return masters
}

// StartLoneNode starts a server that is a node of a Cluster without any slot, as one is before its Cluster is created.
func StartLoneNode(t testing.TB, args ...string) *Server {
	t.Helper()
	return startClusterServer(t, args...)
}

// StartDownCluster starts a Cluster of one master that is down: it has all slots but the last.
func StartDownCluster(t testing.TB, args ...string) *Server {
	t.Helper()
	s := startClusterServer(t, args...)
	client := s.Client(t)
	assert.Must(t, client.ClusterAddSlotsRange(context.Background(), 0, 16382).Err())
	assert.Retry(t, "the Cluster is down", func() (again bool, seen any) {
		info := client.ClusterInfo(context.Background()).Val()
		return !strings.Contains(info, "cluster_state:fail") || !strings.Contains(info, "cluster_slots_assigned:16383"), info
	})
	return s
}

// StartReplicatedCluster starts a Cluster of three masters. Each has a replica that takes over about two seconds
// after the end of its master, where [SetNodeTimeout] has set a second before. The other masters continue meanwhile; by
// default they would refuse too.
func StartReplicatedCluster(t testing.TB) (masters, replicas []*Server) {
	t.Helper()
	var servers []*Server
	for range 6 {
		servers = append(servers, startClusterServer(t, "--cluster-node-timeout", "1000",
			"--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"))
	}
	masters, replicas = servers[:3], servers[3:]
	formCluster(t, masters)
	for i, s := range replicas {
		follow(t, s, masters[i])
	}
	for _, s := range servers {
		awaitCluster(t, s, len(masters), len(replicas))
	}
	SetNodeTimeout(t, servers, patient)
	return masters, replicas
}

// SetNodeTimeout sets after how many milliseconds the servers of a Cluster take one that does not answer for dead.
func SetNodeTimeout(t testing.TB, servers []*Server, milliseconds string) {
	t.Helper()
	setConfig(t, servers, "cluster-node-timeout", milliseconds)
}

// Tolerate has the servers of a Cluster go on when one is gone.
func Tolerate(t testing.TB, servers []*Server) {
	t.Helper()
	setConfig(t, servers, "cluster-require-full-coverage", "no")
}

func setConfig(t testing.TB, servers []*Server, name, value string) {
	t.Helper()
	for _, s := range servers {
		assert.Must(t, s.Client(t).ConfigSet(t.Context(), name, value).Err())
	}
}

// awaitCluster waits until a server is linked with all masters and replicas. A master votes for no replica that it does
// not know, and a replica whose master dies first is told of no others any more: it never asks for their votes.
func awaitCluster(t testing.TB, s *Server, masters, replicas int) {
	t.Helper()
	client := s.Client(t)
	assert.WaitFor(t, "the server knows the Cluster", func() error {
		nodes := client.ClusterNodes(context.Background()).Val()
		owners, followers := 0, 0
		for line := range strings.Lines(nodes) {
			// ID, address, flags, master, ping, pong, epoch, link, slots
			fields := strings.Fields(line)
			switch role := strings.TrimPrefix(fields[2], "myself,"); {
			case fields[7] != "connected":
			case role == "master" && len(fields) > 8:
				owners++
			case role == "slave" && fields[3] != "-":
				followers++
			}
		}
		if owners != masters || followers != replicas {
			return fmt.Errorf("it knows of: %s", nodes)
		}
		return nil
	})
}

// startClusterServer starts a server that belongs to no Cluster yet.
func startClusterServer(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-config-file",
		"nodes.conf"}, args...)...)
}

// meet has a server of a Cluster make itself known to another one. That is repeated until both know each other: on a busy
// machine a handshake may last longer than the node timeout, after which Redis gives it up. Of one that is under way Redis
// takes no notice.
func meet(t testing.TB, client *goredis.Client, other *Server) {
	t.Helper()
	host, port, _ := net.SplitHostPort(other.Addr)
	assert.Must(t, client.ClusterMeet(context.Background(), host, port).Err())
}

// follow adds a server to a master's Cluster as its replica, and waits until it receives all writes.
func follow(t testing.TB, s, master *Server) {
	t.Helper()
	ctx, client := context.Background(), s.Client(t)
	id := master.ClusterID(t)
	assert.WaitFor(t, "the server finds its master", func() error {
		meet(t, client, master)
		return client.ClusterReplicate(ctx, id).Err()
	})
	// The master decides: it buffers writes until the replica reports that it is ready.
	owner := master.Client(t)
	assert.Retry(t, "the replica follows", func() (again bool, seen any) {
		info := owner.Info(ctx, "replication").Val()
		return !strings.Contains(info, "state=online"), fmt.Sprintf("replication: %s", info)
	})
}

// AwaitReplica waits until a replica has all that its master has written. WAIT would not do: it waits for the
// writes of its own connection alone.
func AwaitReplica(t testing.TB, replica, master *Server) {
	t.Helper()
	ctx, from, to := context.Background(), master.Client(t), replica.Client(t)
	assert.Retry(t, "the replica has all writes", func() (again bool, seen any) {
		written := from.InfoMap(ctx, "replication").Item("Replication", "master_repl_offset")
		read := to.InfoMap(ctx, "replication").Val()["Replication"]
		return read["master_link_status"] != "up" || written == "" || read["slave_repl_offset"] != written,
			fmt.Sprintf("the master is at %s, the replica: %v", written, read)
	})
}

// ClusterID returns the server's ID in the Cluster.
func (s *Server) ClusterID(t testing.TB) string {
	t.Helper()
	id, err := s.Client(t).ClusterMyID(context.Background()).Result()
	assert.Must(t, err)
	return id
}

// formCluster gives each master a third of the slots and waits until all agree.
func formCluster(t testing.TB, masters []*Server) {
	t.Helper()
	ctx := context.Background()
	for i, s := range masters { // as redis-cli does: masters of one epoch have to find others first
		assert.Must(t, s.Client(t).Do(ctx, "cluster", "set-config-epoch", i+1).Err())
	}
	for i, s := range masters {
		client := s.Client(t)
		first, last := 16384*i/len(masters), 16384*(i+1)/len(masters)-1
		assert.Must(t, client.ClusterAddSlotsRange(ctx, first, last).Err())
		meet(t, client, masters[0])
	}
	for i, s := range masters {
		client := s.Client(t)
		assert.Retry(t, "the cluster is complete", func() (again bool, seen any) {
			info := client.ClusterInfo(ctx).Val()
			if strings.Contains(info, "cluster_known_nodes:1\r\n") {
				meet(t, client, masters[(i+1)%len(masters)])
			}
			return !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_size:3"), fmt.Sprintf("cluster info: %s", info)
		})
	}
}

// AwaitEpoch waits until another master of a Cluster knows of an epoch as late as this one's. A slot that moves there
// before would return: the other's claim to it would be the older one.
func (s *Server) AwaitEpoch(t testing.TB, other *Server) {
	t.Helper()
	assert.Retry(t, "the master knows the other's epoch", func() (again bool, seen any) {
		own, known := s.epoch(t, "cluster_my_epoch"), other.epoch(t, "cluster_current_epoch")
		return known < own, fmt.Sprintf("%d of %d", known, own)
	})
}

func (s *Server) epoch(t testing.TB, field string) (epoch int64) {
	t.Helper()
	_, rest, _ := strings.Cut(s.Client(t).ClusterInfo(context.Background()).Val(), field+":")
	if _, err := fmt.Sscan(rest, &epoch); err != nil {
		t.Fatal(err)
	}
	return epoch
}
