package storepool

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Namespace begins the names of all metrics.
const Namespace = "caddy_redis_ratelimit"

// Counter returns a metric that counts by labels.
func Counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: Namespace, Name: name, Help: help}, labels)
}

// The collectors of all policies. They count for the whole process: a name has one series for each
// outcome and source, or option. Client keys are never labels.
var (
	Decisions = Counter("decisions_total",
		"Requests by policy, by decision (allowed, denied, failed_open, failed_closed; dry_run_allowed and "+
			"dry_run_denied for policies in dry run) and by its source (redis, lease, memory, deny_cache, fallback, "+
			"override).", "policy", "decision", "source")

	Bans = Counter("bans_total",
		"Bans that began by a request on this node, also of dry runs.", "policy")

	InvalidValues = Counter("invalid_values_total",
		"Requests whose limit, burst, weight or cost came from a placeholder and could not be used, and those "+
			"with a value in a key that is repeated or that applications may read in different ways.", "policy", "option", "reason")

	SettledUnits = Counter("settled_units_total",
		"Units that were settled later, by policy and direction: charged and refunded, what weights were too low "+
			"and too high by (cost); outage, charged on Redis for what this node admitted while Redis did not "+
			"decide.", "policy", "direction")

	LeasedUnits = Counter("leased_units_total",
		"Units that this node took ahead on Redis, counted when it is known what became of them, by policy and "+
			"outcome: spent by requests, returned to Redis, and lapsed, neither of these.", "policy", "outcome")

	WaitSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: Namespace, Name: "wait_seconds",
		Help: "Time that requests waited for others of their key to end, by policy and outcome: started; timeout, full, " +
			"pushed_out, exit and refused, which got no place; left, their clients did.",
		Buckets: []float64{1e-3, 1e-2, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600},
	}, []string{"policy", "outcome"})
)

// countLeased counts units of leases that have ended. A name that was dropped meanwhile has no series any more.
func (n *nameTable) countLeased(policy string, fate limiter.LeaseFate, units int64) {
	n.count(LeasedUnits, policy, string(fate), units)
}

// countOutage counts units of an outage that were charged on Redis, as [nameTable.countLeased] does.
func (n *nameTable) countOutage(policy string, units int64) {
	n.count(SettledUnits, policy, "outage", units)
}

func (n *nameTable) count(series *prometheus.CounterVec, policy, label string, units int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known[policy] != nil {
		series.WithLabelValues(policy, label).Add(float64(units))
	}
}

// CountSettled counts the units that an estimate was short of a cost, or above it where they are negative.
// After the name was dropped there is no series to count in.
func (p *PolicyStats) CountSettled(short int64) {
	direction := "charged"
	if short < 0 {
		direction, short = "refunded", -short
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dropped && short != 0 {
		SettledUnits.WithLabelValues(p.name, direction).Add(float64(short))
	}
}

// Outcomes and Sources are the label values of decisions, in the order of [PolicyStats.Series].
var (
	Outcomes = []limiter.Outcome{limiter.OutcomeAllowed, limiter.OutcomeDenied, limiter.OutcomeFailedOpen, limiter.OutcomeFailedClosed, limiter.OutcomeDryAllowed, limiter.OutcomeDryDenied}
	Sources  = []limiter.Source{
		limiter.SourceRedis, limiter.SourceMemory, limiter.SourceDenyCache, limiter.SourceFallback,
		limiter.SourceOverride, limiter.SourceLease,
	}
)

// nameTable holds the policies by name. It is safe for concurrent use.
type nameTable struct {
	living func() map[string]bool // the names of policies with counts in the in-process store
	now    func() time.Time

	// Gauges returns what runs and waits now. It is set before the first use.
	Gauges func() Gauges

	mu      sync.Mutex
	known   map[string]*PolicyStats
	look    clock.Task // runs prune while there are unused names
	history history
}

// pruneInterval is the time between looks for unused names whose counts have ended.
const pruneInterval = time.Minute

// newNameTable returns no names. The functions return the names of policies with counts in the in-process store,
// and the time.
func newNameTable(living func() map[string]bool, now func() time.Time) *nameTable {
	n := &nameTable{living: living, now: now, known: map[string]*PolicyStats{}, Gauges: func() Gauges { return Gauges{} }}
	n.look.Run = n.prune
	n.history.began, n.history.now, n.history.read = now(), now, n.readings
	return n
}

// Use returns what is kept for a name, which one more configuration uses.
func (n *nameTable) Use(policy string) *PolicyStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.known[policy]
	if d == nil {
		d = &PolicyStats{name: policy, began: n.now(), Top: newSketch(n.now), Used: newUsage(n.now)}
		n.known[policy] = d
	}
	d.users++
	n.history.start()
	return d
}

// Release ends the use of names by a configuration.
func (n *nameTable) Release(used []*PolicyStats) {
	n.mu.Lock()
	for _, p := range used {
		p.users--
	}
	n.mu.Unlock()
	n.prune()
}

// prune drops the unused names whose counts have ended, and looks again later where others are left.
func (n *nameTable) prune() {
	n.mu.Lock()
	defer n.mu.Unlock()
	living := n.living()
	unused := false
	for name, d := range n.known {
		switch {
		case d.users > 0:
		case living[name] || !d.Top.empty():
			unused = true
		default:
			d.drop()
			delete(n.known, name)
		}
	}
	if unused {
		n.look.Start(pruneInterval)
	} else {
		n.look.Stop()
	}
}

// end drops all names.
func (n *nameTable) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.look.Stop()
	n.history.timer.Stop()
	for _, d := range n.known {
		d.drop()
	}
	clear(n.known)
}

// PolicyStats is what is kept for a name. Series are made when they are first needed, and those of bans by
// [PolicyStats.CountBans], so that there are none of what cannot happen. They are looked up once.
type PolicyStats struct {
	// Top are the keys that were denied most.
	Top *sketch

	// Used are the units that keys have used of quotas, in dry runs too. What no store has decided, by fail_mode open, has
	// used none.
	Used *usage

	// Series count decisions by outcome and source. A series is nil before [PolicyStats.Count] has counted in it.
	Series [6][6]atomic.Pointer[prometheus.Counter]

	name  string
	users int // configurations; guarded by the lock of all names

	running atomic.Bool // it counts running requests, or did
	waits   atomic.Bool // requests wait, or did

	began               time.Time
	deniedByOthers      atomic.Int64
	bans                atomic.Int64 // that began
	looked              optionCount  // that have looked and passed, where some requests only look
	reserveDenied       optionCount  // that are denied what is reserved, where something is
	matched, notMatched atomic.Int64 // responses that count_if judged
	neverMetTaken       atomic.Bool  // by [PolicyStats.TakeNeverMet]

	track track // the last ten minutes

	mu      sync.Mutex // for what makes and drops series
	dropped bool
	invalid map[string]*clock.Gate // of the log, for each option that has a series of invalid_values_total
}

// Count counts a decision. After the name was dropped there is no series to count in.
func (p *PolicyStats) Count(o limiter.Outcome, s limiter.Source) {
	series := &p.Series[max(0, slices.Index(Outcomes, o))][max(0, slices.Index(Sources, s))]
	counter := series.Load()
	if counter == nil {
		if counter = p.make(o, s); counter == nil {
			return
		}
		series.Store(counter)
	}
	(*counter).Inc()
}

// make makes a series; nil after the name was dropped.
func (p *PolicyStats) make(o limiter.Outcome, s limiter.Source) *prometheus.Counter {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropped {
		return nil
	}
	made := Decisions.WithLabelValues(p.name, string(o), string(s))
	return &made
}

// CountInvalid counts a value of an option that cannot be used for a reason, and reports whether it is to be logged: one of
// each option is in a minute, so that what a client sends hides nothing else. After the name was dropped none is.
func (p *PolicyStats) CountInvalid(option, reason string) (logged bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropped {
		return false
	}
	gate := p.invalid[option]
	if gate == nil {
		if p.invalid == nil {
			p.invalid = map[string]*clock.Gate{}
		}
		gate = new(clock.Gate)
		p.invalid[option] = gate
	}
	InvalidValues.WithLabelValues(p.name, option, reason).Inc()
	return gate.Pass(time.Now(), time.Minute)
}

// CountBans begins to count bans, at 0: a rate does not show the first of a series that begins at 1.
func (p *PolicyStats) CountBans() { p.addBans(0) }

// CountBan counts a ban that began.
func (p *PolicyStats) CountBan() {
	p.bans.Add(1)
	p.addBans(1)
}

func (p *PolicyStats) addBans(bans float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dropped {
		Bans.WithLabelValues(p.name).Add(bans)
	}
}

// drop deletes the series. Requests under way make no new ones.
func (p *PolicyStats) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped = true
	Bans.DeleteLabelValues(p.name)
	UnmatchedCountIf.DeleteLabelValues(p.name)
	for _, o := range Outcomes {
		for _, s := range Sources {
			Decisions.DeleteLabelValues(p.name, string(o), string(s))
		}
	}
	SettledUnits.DeletePartialMatch(prometheus.Labels{"policy": p.name})
	LeasedUnits.DeletePartialMatch(prometheus.Labels{"policy": p.name})
	WaitSeconds.DeletePartialMatch(prometheus.Labels{"policy": p.name})
	if p.invalid != nil {
		InvalidValues.DeletePartialMatch(prometheus.Labels{"policy": p.name})
	}
}

// CountRunning marks the name as one that counts running requests.
func (p *PolicyStats) CountRunning() { p.running.Store(true) }

// optionCount counts requests by what an option of a policy did. It is shown, from 0, for policies that have or had the option.
type optionCount struct {
	shown    atomic.Bool
	requests atomic.Int64
}

// CountLooks marks the name as one at whose quotas some requests only look.
func (p *PolicyStats) CountLooks() { p.looked.shown.Store(true) }

// CountLooked counts a request that has only looked, and passed.
func (p *PolicyStats) CountLooked() { p.looked.requests.Add(1) }

// CountReserve marks the name as one of whose quotas something is reserved.
func (p *PolicyStats) CountReserve() { p.reserveDenied.shown.Store(true) }

// CountReserveDenied counts a request that was denied what is reserved.
func (p *PolicyStats) CountReserveDenied() { p.reserveDenied.requests.Add(1) }

// Looked returns how many requests have only looked and passed, by the names at whose quotas some do.
func (n *nameTable) Looked() map[string]int64 {
	return n.counts(func(p *PolicyStats) *optionCount { return &p.looked })
}

// ReserveDenied returns how many requests were denied what is reserved, by the names of whose quotas something is.
func (n *nameTable) ReserveDenied() map[string]int64 {
	return n.counts(func(p *PolicyStats) *optionCount { return &p.reserveDenied })
}

// counts returns the requests of a count by the names for which it is shown.
func (n *nameTable) counts(of func(*PolicyStats) *optionCount) map[string]int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	requests := map[string]int64{}
	for name, p := range n.known {
		if count := of(p); count.shown.Load() {
			requests[name] = count.requests.Load()
		}
	}
	return requests
}

// CountingRunning returns the names that count running requests. Those that no configuration uses any more
// are among them while their requests run.
func (n *nameTable) CountingRunning() (names []string) {
	return n.where(func(p *PolicyStats) bool { return p.running.Load() })
}

func (n *nameTable) where(is func(*PolicyStats) bool) (names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, p := range n.known {
		if is(p) {
			names = append(names, name)
		}
	}
	return names
}
