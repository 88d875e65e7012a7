// Command sizing measures the memory of clients in a real Redis and in this process, and the processor
// time and traffic of Redis for a decision. It prints the tables of measured.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/memory"
)

func main() {
	only := flag.String("only", "", "print only this table: memory, decisions, core or process")
	flag.Parse()
	if err := run(context.Background(), *only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const million = 1_000_000

// table measures and prints one table.
type table struct {
	name  string
	print func(context.Context, *redisServer) error
}

func run(ctx context.Context, only string) error {
	tables := []table{{"memory", memoryOfRedis}, {"decisions", decisionsOfRedis}, {"core", coreOfRedis}, {"process", memoryOfProcess}}
	if only != "" {
		tables = slices.DeleteFunc(tables, func(t table) bool { return t.name != only })
	}
	if len(tables) == 0 {
		return fmt.Errorf("-only %s: use memory, decisions, core or process", only)
	}
	r, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer r.stop()
	fmt.Print("Redis ", r.version(ctx), ", ", runtime.Version(), ", ", runtime.NumCPU(), " cores\n\n")
	for _, t := range tables {
		if err := t.print(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// load is the requests of clients.
type load struct {
	algorithm string
	address   func(client int) string
	clients   int
	requests  int  // of each client; all clients send one before the next
	policies  int  // of each request
	together  int  // requests in flight, on each node
	bans      bool // the last request of each client is denied, and bans it
	nodes     int  // stores with a connection of their own; 0: one
}

// checks returns the checks of a request.
func (l load) checks(policies []*limiter.Policy, client int) []limiter.Check {
	checks := make([]limiter.Check, len(policies))
	for i, p := range policies {
		checks[i] = limiter.Check{Policy: p, Key: limiter.EncodeKey(l.address(client))}
	}
	return checks
}

// policy returns policy i of a request. Its limit equals the requests of a client that pass, so that no
// bucket drains before the measurement ends.
func (l load) policy(i int) (*limiter.Policy, error) {
	settings := limiter.Settings{Name: fmt.Sprint("api", i), Algorithm: l.algorithm, Limit: int64(l.requests), Window: time.Hour}
	if l.bans {
		settings.Limit--
		settings.Ban = []time.Duration{time.Hour}
	}
	return limiter.NewPolicy(settings)
}

// name describes a load's policies.
func (l load) name() string {
	if l.bans {
		return "`" + l.algorithm + "`, all banned"
	}
	return "`" + l.algorithm + "`"
}

func ipv4(client int) string {
	return fmt.Sprintf("198.%d.%d.%d", 18+client>>16, client>>8&255, client&255)
}

func ipv6(client int) string {
	return fmt.Sprintf("2001:db8:%x:%x::/64", 0x1000+client>>16, client&0xffff)
}

// memoryOfRedis prints the memory of a million clients in Redis.
func memoryOfRedis(ctx context.Context, r *redisServer) error {
	fmt.Println("| algorithm | key of a client | requests of each | MB per million clients and policy |\n|---|---|--:|--:|")
	for _, l := range []load{
		{"sliding_window_counter", ipv4, million, 1, 1, 512, false, 0},
		{"sliding_window_counter", ipv6, million, 1, 1, 512, false, 0},
		{"fixed_window", ipv4, million, 1, 1, 512, false, 0},
		{"fixed_window", ipv6, million, 1, 1, 512, false, 0},
		{"token_bucket", ipv4, million, 1, 1, 512, false, 0},
		{"token_bucket", ipv6, million, 1, 1, 512, false, 0},
		{"sliding_window_log", ipv4, million / 4, 1, 1, 512, false, 0},
		{"sliding_window_log", ipv4, million / 4, 10, 1, 512, false, 0},
		{"sliding_window_log", ipv4, million / 32, 100, 1, 512, false, 0},
		{"sliding_window_counter", ipv4, million, 2, 1, 512, true, 0},
		{"sliding_window_counter", ipv6, million, 2, 1, 512, true, 0},
	} {
		spent, err := r.measure(ctx, l)
		if err != nil {
			return err
		}
		fmt.Printf("| %s | `%s` | %d | %.0f |\n", l.name(), l.address(0), l.requests, spent.memory/float64(l.clients))
	}
	fmt.Println()
	return nil
}

// decisionsOfRedis prints the processor time and traffic of a million decisions.
func decisionsOfRedis(ctx context.Context, r *redisServer) error {
	fmt.Println("| under way | a script run | policies of each | algorithm | CPU s per million requests | bytes a request to Redis | back |\n|--:|--:|--:|---|--:|--:|--:|")
	for _, l := range []load{
		{"sliding_window_counter", ipv4, 100_000, 1, 1, 1, false, 0},
		{"sliding_window_counter", ipv4, 100_000, 3, 1, 16, false, 0},
		{"sliding_window_counter", ipv4, 100_000, 5, 1, 64, false, 0},
		{"sliding_window_counter", ipv4, 100_000, 10, 1, 512, false, 0},
		{"sliding_window_counter", ipv4, 100_000, 5, 3, 64, false, 0},
		{"fixed_window", ipv4, 100_000, 5, 1, 64, false, 0},
		{"token_bucket", ipv4, 100_000, 5, 1, 64, false, 0},
		{"sliding_window_log", ipv4, 100_000, 5, 1, 64, false, 0},
	} {
		s, err := r.measure(ctx, l)
		if err != nil {
			return err
		}
		requests := float64(l.clients * l.requests)
		fmt.Printf("| %d | %.1f | %d | `%s` | %.1f | %.0f | %.0f |\n", l.together, requests/s.batches, l.policies, l.algorithm,
			s.cpu/requests*million, s.received/requests, s.sent/requests)
	}
	fmt.Println()
	return nil
}

// memoryOfProcess prints the memory of a million clients in this process.
func memoryOfProcess(ctx context.Context, _ *redisServer) error {
	fmt.Println("| algorithm | requests of each | MB per million clients and policy |\n|---|--:|--:|")
	for _, l := range []load{
		{"sliding_window_counter", ipv4, million, 1, 1, 1, false, 0},
		{"token_bucket", ipv4, million, 1, 1, 1, false, 0},
		{"sliding_window_log", ipv4, million, 1, 1, 1, false, 0},
		{"sliding_window_log", ipv4, million / 4, 10, 1, 1, false, 0},
		{"sliding_window_log", ipv4, million / 32, 100, 1, 1, false, 0},
		{"sliding_window_counter", ipv4, million, 2, 1, 1, true, 0},
	} {
		p, err := l.policy(0)
		if err != nil {
			return err
		}
		before := heap()
		store := memory.New()
		store.Limit(4*million, nil) // for states and bans
		for i := range l.clients * l.requests {
			if _, err := store.Decide(ctx, l.checks([]*limiter.Policy{p}, i%l.clients)); err != nil {
				return err
			}
		}
		fmt.Printf("| %s | %d | %.0f |\n", l.name(), l.requests, float64(heap()-before)/float64(l.clients))
		runtime.KeepAlive(store)
	}
	return nil
}

// heap returns the bytes in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
