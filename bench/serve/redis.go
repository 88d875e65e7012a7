package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// RedisServer is the program of the machine's own Redis.
const RedisServer = "redis-server"

// Redis starts an empty Redis, or another server with its flags, that writes nothing to disk.
func Redis(ctx context.Context, dir, program string) (*Process, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	return startRedis(ctx, dir, program, addr)
}

func startRedis(ctx context.Context, dir, program, addr string, args ...string) (*Process, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	args = append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"}, args...)
	return Start(ctx, filepath.Base(program), addr, dir, nil, program, args...)
}

// masters is the size of the cluster.
const masters = 3

// Cluster starts a cluster of three masters without replicas. With an error it returns the nodes that
// did start, which the caller stops.
func Cluster(ctx context.Context, dir string) ([]*Process, error) {
	var nodes []*Process
	for i := range masters {
		addr, err := freeBusAddr()
		if err != nil {
			return nodes, err
		}
		home := filepath.Join(dir, "cluster-"+strconv.Itoa(i))
		if err := os.MkdirAll(home, 0o700); err != nil {
			return nodes, err
		}
		node, err := startRedis(ctx, home, RedisServer, addr, "--cluster-enabled", "yes")
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, node)
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	return nodes, form(ctx, nodes)
}

// slots is the number of slots of a cluster.
const slots = 16384

// form assigns a third of the slots to each master and waits until the cluster state is ok on all.
func form(ctx context.Context, nodes []*Process) error {
	for i, node := range nodes {
		first, last := slots*i/len(nodes), slots*(i+1)/len(nodes)-1
		if err := join(ctx, node.Addr, nodes[0].Addr, first, last); err != nil {
			return fmt.Errorf("forming the cluster: %w", err)
		}
	}
	for _, node := range nodes {
		if err := waitComplete(ctx, node.Addr); err != nil {
			return fmt.Errorf("forming the cluster: %w", err)
		}
	}
	return nil
}

// join assigns slots to a node and sends it CLUSTER MEET for another.
func join(ctx context.Context, addr, other string, first, last int) error {
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	defer client.Close() //nolint:errcheck // no command is in flight
	if err := client.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(other)
	if err != nil {
		return err
	}
	return client.ClusterMeet(ctx, host, port).Err()
}

func waitComplete(ctx context.Context, addr string) error {
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	defer client.Close() //nolint:errcheck // no command is in flight
	for !complete(client.ClusterInfo(ctx).Val()) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func complete(info string) bool {
	return strings.Contains(info, "cluster_state:ok") &&
		strings.Contains(info, "cluster_size:"+strconv.Itoa(masters)) &&
		strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(masters))
}

// freeBusAddr returns a free address whose port for the cluster's bus, 10,000 above, is free too.
func freeBusAddr() (string, error) {
	const attempts = 100
	for range attempts {
		addr, err := FreeAddr()
		if err != nil {
			return "", err
		}
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return "", err
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			return "", err
		}
		bus, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(n+10_000)))
		if err != nil {
			continue // taken, or above 65,535
		}
		return addr, bus.Close()
	}
	return "", errors.New("no free ports for a cluster")
}
