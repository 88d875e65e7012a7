package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// meter measures what a run takes, from the first measured visit on.
type meter struct {
	backend *backend
	nodes   []*serve.Process

	mu     sync.Mutex
	from   time.Time
	cpu    time.Duration // of the nodes, before
	loads  []float64
	memory int64
}

// watch begins to measure when visits do, and looks again each second.
func (m *meter) watch(ctx context.Context, r *runOf) {
	if r.until(ctx, settled) != nil {
		return
	}
	m.begin()
	for sleep(ctx, time.Second) == nil {
		m.look()
	}
}

func (m *meter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.from, m.cpu = time.Now(), m.cpuOfNodes()
	m.backend.take()
}

func (m *meter) look() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if load, err := loadOfCore(); err == nil {
		m.loads = append(m.loads, load)
	}
	for _, n := range m.nodes {
		m.memory = max(m.memory, n.Resident())
	}
}

func (m *meter) cpuOfNodes() (cpu time.Duration) {
	for _, n := range m.nodes {
		cpu += n.CPU()
	}
	return cpu
}

// read notes in a result what was measured.
func (m *meter) read(r *Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Seconds, r.CPU, r.Memory, r.Work = time.Since(m.from).Seconds(), m.cpuOfNodes()-m.cpu, m.memory, m.backend.take()
	for _, load := range m.loads {
		r.Load += load / float64(len(m.loads))
	}
}

// loadOfCore returns the processes that wanted a core in the last minute, by the number of cores.
func loadOfCore() (load float64, err error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(string(text), &load)
	return load / float64(runtime.NumCPU()), err
}

// awaitQuiet waits until a run would count, or for a while: then the run tells that it does not.
func awaitQuiet(ctx context.Context, mostLoad float64, longest time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, errStillBusy)
	defer cancel()
	for {
		load, err := loadOfCore()
		if err != nil || load < mostLoad {
			return err
		}
		if sleep(ctx, time.Second) != nil {
			progress("the machine has a load of %.1f a core; above %.1f a run is void", load, mostLoad)
			if cause := context.Cause(ctx); !errors.Is(cause, errStillBusy) {
				return cause
			}
			return nil
		}
	}
}

var errStillBusy = errors.New("the machine is busy")
