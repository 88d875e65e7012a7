// Command sizing measures what a million keys take of the memory of Redis and of this process, and what one
// core of Redis decides. It prints the tables of docs/operations.md#sizing and of docs/scale.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/memory"
)

func main() {
	only := flag.String("only", "", "print only this table: memory or core")
	flag.Parse()
	if err := run(context.Background(), *only); err != nil {
		fmt.Fprintln(os.Stderr, "sizing:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string) error {
	if only != "" && only != "memory" && only != "core" {
		return fmt.Errorf("-only %s: use memory or core", only)
	}
	r, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer r.stop()
	fmt.Print("Redis ", r.version(ctx), ", ", runtime.Version(), ", ", runtime.NumCPU(), " cores\n\n")
	if only != "core" {
		if err := memoryTable(ctx, r); err != nil {
			return err
		}
	}
	if only != "memory" {
		return coreTable(ctx, r)
	}
	return nil
}

const million = 1_000_000

// load is the requests of clients.
type load struct {
	settings limiter.Settings // without name and limit
	clients  int
	requests int // of each client; all clients send one before the next
	together int // requests in flight, on each node
	nodes    int // stores with a connection of their own
}

// loadOf is the load of a million clients.
func loadOf(algorithm string, requests int) load {
	return load{limiter.Settings{Algorithm: algorithm, Window: time.Hour}, million, requests, 512, 1}
}

// policy returns the load's policy. Its limit equals the requests of a client that pass, so that no bucket
// drains before the measurement ends. With bans the last request of each client is denied, and bans it.
func (l load) policy() (*limiter.Policy, error) {
	settings := l.settings
	settings.Name, settings.Limit = "api", int64(l.requests)
	if settings.Ban != nil {
		settings.Limit--
	}
	return limiter.NewPolicy(settings)
}

// check returns the check of request i, by the IPv4 address of its client.
func (l load) check(p *limiter.Policy, i int) limiter.Check {
	client := i % l.clients
	address := fmt.Sprintf("198.%d.%d.%d", 18+client>>16, client>>8&255, client&255)
	return limiter.Check{Policy: p, Key: limiter.EncodeKey(address)}
}

// memoryTable prints the bytes of a key in Redis and in this process.
func memoryTable(ctx context.Context, r *redisServer) error {
	fmt.Println("| algorithm | requests of each client | Redis | each Caddy |\n|---|--:|--:|--:|")
	banned, month := loadOf("sliding_window_counter", 2), loadOf("fixed_window", 1)
	banned.settings.Ban = []time.Duration{time.Hour}
	month.settings.Window, month.settings.Calendar = 0, "month"
	hundred := loadOf("sliding_window_log", 100)
	hundred.clients /= 32
	for _, row := range []struct {
		name string
		load load
	}{
		{"`sliding_window_counter`", loadOf("sliding_window_counter", 1)},
		{"`fixed_window`", loadOf("fixed_window", 1)},
		{"`fixed_window` by the calendar", month},
		{"`token_bucket`", loadOf("token_bucket", 1)},
		{"`leaky_bucket`", loadOf("leaky_bucket", 1)},
		{"`gcra`", loadOf("gcra", 1)},
		{"`sliding_window_log`", loadOf("sliding_window_log", 1)},
		{"`sliding_window_log`", loadOf("sliding_window_log", 10)},
		{"`sliding_window_log`", hundred},
		{"`sliding_window_counter`, all banned", banned},
	} {
		inRedis, err := r.measure(ctx, row.load)
		if err != nil {
			return err
		}
		inProcess, err := row.load.heap(ctx)
		if err != nil {
			return err
		}
		each := float64(row.load.clients)
		fmt.Printf("| %s | %d | %.0f | %.0f |\n", row.name, row.load.requests, inRedis.memory/each, inProcess/each)
	}
	fmt.Println()
	return nil
}

// heap returns the bytes that the load's keys take in this process.
func (l load) heap(ctx context.Context) (float64, error) {
	p, err := l.policy()
	if err != nil {
		return 0, err
	}
	inUse := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := inUse()
	store := memory.New()
	store.Limit(4*million, nil) // for states and bans
	for i := range l.clients * l.requests {
		if _, err := store.Decide(ctx, []limiter.Check{l.check(p, i)}); err != nil {
			return 0, err
		}
	}
	after := inUse()
	runtime.KeepAlive(store)
	return after - before, nil
}

// coreTable prints what one core of Redis decides, by how many requests share a script run.
func coreTable(ctx context.Context, r *redisServer) error {
	fmt.Println("| algorithm | decisions a run | CPU µs a decision | decisions/s of a core |\n|---|--:|--:|--:|")
	for _, algorithm := range []string{"sliding_window_counter", "token_bucket", "sliding_window_log"} {
		alone, busy := loadOf(algorithm, 4), loadOf(algorithm, 5)
		alone.clients, alone.nodes, alone.together = 50_000, 32, 1
		busy.clients, busy.together = 100_000, 64
		for _, l := range []load{alone, busy} {
			s, err := r.measure(ctx, l)
			if err != nil {
				return err
			}
			requests := float64(l.clients * l.requests)
			cpu := s.cpu / requests * million
			fmt.Printf("| %#q | %.1f | %.1f | %.0f,000 |\n", algorithm, requests/s.batches, cpu, 1000/cpu)
		}
	}
	return nil
}
