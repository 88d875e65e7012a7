package redisratelimit

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/heavyhitters"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// policyNames holds what the process keeps for each name of a policy, whatever the configuration: its
// series and its most denied keys. A name that no configuration uses is dropped after its counts ended.
type policyNames struct {
	living func() map[string]bool // the names of policies with counts in the in-process store
	now    func() time.Time

	mu    sync.Mutex
	known map[string]*decisionCounters
	look  *time.Timer // while there are unused names
}

// pruneInterval is the time between looks for unused names whose counts have ended.
const pruneInterval = time.Minute

func newPolicyNames(living func() map[string]bool, now func() time.Time) *policyNames {
	return &policyNames{living: living, now: now, known: map[string]*decisionCounters{}}
}

// use returns what is kept for a name, which one more configuration uses.
func (n *policyNames) use(policy string) *decisionCounters {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.known[policy]
	if d == nil {
		d = &decisionCounters{policy: policy, top: heavyhitters.New(n.now)}
		n.known[policy] = d
	}
	d.users++
	return d
}

// release ends the use of names by a configuration.
func (n *policyNames) release(policies registeredPolicies) {
	n.mu.Lock()
	for _, p := range policies {
		if p.counters != nil {
			p.counters.users--
		}
	}
	n.mu.Unlock()
	n.prune()
}

// prune drops the unused names whose counts have ended, and looks again later where others are left.
func (n *policyNames) prune() {
	living := n.living()
	n.mu.Lock()
	defer n.mu.Unlock()
	unused := false
	for name, d := range n.known {
		switch {
		case d.users > 0:
		case living[name] || !d.top.Empty():
			unused = true
		default:
			d.drop()
			delete(n.known, name)
		}
	}
	switch {
	case !unused:
		n.stop()
	case n.look == nil:
		n.look = time.AfterFunc(pruneInterval, n.prune)
	default:
		n.look.Reset(pruneInterval)
	}
}

// stop ends the looks. The lock is held.
func (n *policyNames) stop() {
	if n.look != nil {
		n.look.Stop()
		n.look = nil
	}
}

// end drops all names.
func (n *policyNames) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stop()
	for _, d := range n.known {
		d.drop()
	}
	clear(n.known)
}

// decisionCounters are what is kept for a policy's name: its series, of decisions_total and of
// invalid_values_total, and its most denied keys. Series are made when they are first needed, so that there
// are none of what cannot happen, and looked up once.
type decisionCounters struct {
	policy string
	top    *heavyhitters.Sketch
	users  int // configurations; guarded by the lock of all names
	cells  [6][4]atomic.Pointer[prometheus.Counter]

	mu      sync.Mutex // for what makes and drops series
	dropped bool
	invalid bool // there are series of invalid_values_total
}

// count counts a decision. That of a request whose policy was dropped meanwhile has no series any more.
func (d *decisionCounters) count(o rule.Outcome, s limiter.Source) {
	cell := &d.cells[index(outcomes, o)][index(sources, s)]
	counter := cell.Load()
	if counter == nil {
		if counter = d.make(o, s); counter == nil {
			return
		}
		cell.Store(counter)
	}
	(*counter).Inc()
}

// make makes a series; nil after the name was dropped.
func (d *decisionCounters) make(o rule.Outcome, s limiter.Source) *prometheus.Counter {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dropped {
		return nil
	}
	made := metrics.decisions.WithLabelValues(d.policy, string(o), string(s))
	return &made
}

// countInvalid counts a value of an option that cannot be used.
func (d *decisionCounters) countInvalid(option string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.dropped {
		d.invalid = true
		metrics.invalidValues.WithLabelValues(d.policy, option).Inc()
	}
}

// drop deletes the series. Requests under way make no new ones.
func (d *decisionCounters) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropped = true
	for _, o := range outcomes {
		for _, s := range sources {
			metrics.decisions.DeleteLabelValues(d.policy, string(o), string(s))
		}
	}
	if d.invalid {
		metrics.invalidValues.DeletePartialMatch(prometheus.Labels{"policy": d.policy})
	}
}
