package storepool

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// HaveWait marks the name as one whose requests wait for others to end.
func (p *PolicyStats) HaveWait() { p.waits.Store(true) }

// Waiting returns the names whose requests wait, as [nameTable.CountingRunning] does.
func (n *nameTable) Waiting() (names []string) {
	return n.where(func(p *PolicyStats) bool { return p.waits.Load() })
}

// CountWait counts a wait that has ended. After the name was dropped there is no series to count in.
func (p *PolicyStats) CountWait(outcome string, waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dropped {
		WaitSeconds.WithLabelValues(p.name, outcome).Observe(waited.Seconds())
	}
}

// Waits returns what waits in this process on all stores, by policy. Policies for which none waits are missing.
func (p *Pool) Waits() map[string]waiting.Waits {
	found := map[string]waiting.Waits{}
	for _, q := range p.queues() {
		for policy, w := range q.ByPolicy() {
			found[policy] = found[policy].And(w)
		}
	}
	return found
}

// Reconsider has what waits be decided by the settings of the configuration that runs now.
func (p *Pool) Reconsider() {
	for _, q := range p.queues() {
		q.Reconsider("")
	}
}

// queues returns the queues of all stores.
func (p *Pool) queues() (queues []*failover.Queue) {
	p.Range(func(_, value any) bool {
		switch store := value.(type) {
		case *memoryStore:
			queues = append(queues, store.shared.Queue)
		case *Redis:
			queues = append(queues, store.shared.Queue)
		}
		return true
	})
	return queues
}
