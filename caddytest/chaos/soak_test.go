package chaos

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

const (
	// soakClients send requests at once, each to one node.
	soakClients = 12

	// soakSettle is how long after a fault its traces may last: a window, and the second within which nodes learn
	// of an override.
	soakSettle = 1200 * time.Millisecond

	// soakLength is how long faults follow one another where SOAK=long is set.
	soakLength = 14 * time.Minute
)

// isSoak reports whether SOAK=long is set. The test then has the machine for itself.
func isSoak() bool { return assert.Rounds(0, 1) == 1 }

// soak is three nodes with all features on a master with replicas and sentinels, and a backend that notes what
// reaches it.
type soak struct {
	group    *group
	nodes    [3]atomic.Pointer[caddytest.Node]
	leaving  [3]atomic.Bool // a node is stopped or reloaded: it may reset connections
	numbers  [3]int         // of the nodes' processes
	started  int            // processes of Caddy so far
	rounds   int            // reloads so far
	backend  string
	warnings int // in the logs of nodes that were stopped
	faults   []span
	promoted func() []time.Time // when sentinels promoted replicas
	vip      int                // the limit by the override

	ran             int // at once, in the last calm span
	elsewhere, full int // in calm spans: requests that passed without Redis, and windows that are full

	load
	turns [soakClients]atomic.Int64 // requests that each client has ended

	mu            sync.Mutex
	accounts      map[string]*account
	running, most int // at the backend; most: since the last look
	wrong         int
	complaint     string // the first wrong response
}

// TestSoak uses all features at once while one fault follows another. In calm spans between them each limit is
// exact; in a fault each process of Caddy may admit a limit by itself, and each failover may lose one.
func TestSoak(t *testing.T) {
	beside(t)
	s := &soak{accounts: map[string]*account{}, vip: vipLimit}
	for _, f := range features {
		s.accounts[f.name] = &account{}
	}
	s.backend = caddytest.Serve(t, s.serve)
	s.group = startGroup(t)
	s.promoted = s.group.promotions(t)
	for i := range s.nodes {
		s.startNode(t, i)
	}
	used, stalled := s.used(t), redistest.WatchStalls(t)
	s.begin(t)
	for i, began := 0, time.Now(); i == 0 || isSoak() && !t.Failed() && time.Since(began) < soakLength; i++ {
		s.cycle(t, i)
	}
	if isSoak() {
		s.calm(t, 12*time.Second) // has a whole window of each feature
	}
	s.end()
	s.checkFaults(t)
	s.check(t, stalled().Longest())
	s.checkUsed(t, used)
	t.Logf("%d faults, %d processes of Caddy, %d reloads, %d warnings, %d full windows; %d requests passed without Redis between faults\n%s",
		len(s.faults), s.started, s.rounds, s.warnings, s.full, s.elsewhere, s.table())
}

// cycle has a fault happen, heals, and checks a calm span.
func (s *soak) cycle(t *testing.T, i int) {
	t.Helper()
	fault := soakFaults[i%len(soakFaults)]
	if i >= len(soakFaults) {
		fault = soakFaults[rand.IntN(len(soakFaults))]
	}
	from := time.Now()
	fault.happen(t, s, s.group.settled(t))
	s.heal(t)
	healed := time.Now()
	t.Logf("%s to %s: %s", from.UTC().Format(time.TimeOnly), healed.UTC().Format(time.TimeOnly), fault.name)
	s.mu.Lock()
	s.faults = append(s.faults, span{from, healed})
	s.mu.Unlock()
	s.override(t, i)
	s.calm(t, 2200*time.Millisecond)
	assert.ErrorIf(t, t.Failed(), "this was after: %s", fault.name)
}

// calm waits until the traces of a fault are gone, and checks the time that follows.
func (s *soak) calm(t *testing.T, length time.Duration) {
	t.Helper()
	stalled := redistest.WatchStalls(t)
	<-time.After(soakSettle)
	s.look()
	from := time.Now()
	<-time.After(length)
	calm := span{from, time.Now()}
	s.awaitTurns(t)
	if late := (span{s.faults[len(s.faults)-1].to, calm.to}); s.promotedIn(late) > 0 {
		t.Logf("the sentinels replaced the master only now")
		s.faults = append(s.faults, late)
		return
	}
	s.checkCalm(t, calm, stalled().Longest())
}

// override sets another limit of a key, through each node in turn, and waits until all know it.
func (s *soak) override(t *testing.T, i int) {
	t.Helper()
	limit := vipLimit * (2 - i%2)
	assert.Retry(t, "an override is set", func() (again bool, seen any) { // which a busy Redis may answer too late
		a := s.nodes[i%3].Load().Ask(t, http.MethodPost, "override", fmt.Sprintf(`{"policy":"vip","key":"hot","limit":%d}`, limit))
		return a.Status != http.StatusOK, a
	})
	s.vip = limit
}

// startNode starts a node in a place, and lets the load through to it once its overrides hold.
func (s *soak) startNode(t *testing.T, i int) {
	t.Helper()
	s.started++
	s.numbers[i] = s.started
	n := caddytest.Start(t, s.config(s.started))
	if s.started == 1 {
		assert.Retry(t, "the node finds Redis", func() (again bool, seen any) {
			a := n.Ask(t, http.MethodPost, "override", `{"policy":"blocked","key":"hot","block":true}`)
			return a.Status != http.StatusOK, a
		})
	}
	n.Await(t, "/blocked", 0, "denied override")
	n.Await(t, "/ready", 0, "redis")
	s.nodes[i].Store(n)
	s.leaving[i].Store(false)
}

// feature is a policy of the soak, and the requests for it.
type feature struct {
	name    string // of the policy; the path begins with it
	share   int    // of the requests
	options string // lines of the policy but its name
	rule    rule   // what may pass; limit 0: everything
	refunds int    // units that may be refunded of the requests on their way
	hold    time.Duration
	query   func() string // of a request; nil: none
	paths   []string      // in turn; empty: the name
	never   int           // a status that no request may get
}

// fixed is a rule of windows of a second.
func fixed(limit int) rule { return rule{"fixed_window", limit, limit, time.Second} }

// options returns the lines of a rule.
func (r rule) options(more string) string {
	burst := ""
	if r.burst != r.limit {
		burst = "burst " + strconv.Itoa(r.burst) + "\n"
	}
	return fmt.Sprintf("key hot\nlimit %d\nwindow %v\nalgorithm %s\n%s%s", r.limit, r.window, r.algorithm, burst, more)
}

// one is a feature with a hot key.
func one(share int, name string, r rule, more string) feature {
	return feature{name: name, share: share, rule: r, options: r.options(more)}
}

// with changes a feature.
func (f feature) with(change func(f *feature)) feature {
	change(&f)
	return f
}

const (
	soakDelay  = 300 * time.Millisecond // of the leaky bucket
	soakRun    = 100 * time.Millisecond // of a request that the backend runs
	soakPlaces = 2                      // for requests that run
	vipLimit   = 8                      // unless an override says otherwise
)

// features are used at the same time. Each limit is far below what the clients ask for.
var features = []feature{
	one(20, "leased", rule{"fixed_window", 600, 600, 10 * time.Second}, "lease"),
	one(9, "fixed", fixed(15), "weight {query.w} 1").with(func(f *feature) {
		f.query = func() string { return "w=" + strconv.Itoa(1+rand.IntN(3)) }
	}),
	one(7, "counter", rule{"sliding_window_counter", 12, 12, time.Second}, ""),
	one(7, "log", rule{"sliding_window_log", 12, 12, time.Second}, ""),
	one(7, "bucket", rule{"token_bucket", 12, 12, time.Second}, ""),
	one(6, "gcra", rule{"gcra", 10, 4, time.Second}, ""),
	one(5, "leaky", rule{"leaky_bucket", 10, 4, time.Second}, "max_delay "+soakDelay.String()).with(func(f *feature) {
		f.rule.burst += int(soakDelay * 10 / time.Second) // what waits passes later than it is decided
		f.hold = soakDelay
	}),
	one(6, "status", fixed(8), "count_if status 401").with(func(f *feature) {
		f.refunds = soakClients
		f.query = func() string { return "status=" + []string{"200", "401"}[rand.IntN(2)] }
	}),
	one(6, "cost", fixed(300), "weight {query.w} 1\ncost {http.reverse_proxy.header.X-Cost} 1").with(func(f *feature) {
		f.refunds = 60 * soakClients
		f.query = func() string {
			estimate := 1 + rand.IntN(60)
			return fmt.Sprintf("w=%d&cost=%d", estimate, 1+rand.IntN(estimate))
		}
	}),
	one(4, "shared", fixed(12), ""),
	one(4, "low", fixed(6), ""), // of the policy shared
	{name: "running", share: 6, hold: soakRun, options: "key hot\nmax_concurrent " + strconv.Itoa(soakPlaces) + "\nnode_timeout 5s"},
	one(4, "banned", fixed(5), "ban 3s after 2"),
	one(4, "vip", fixed(vipLimit), ""),
	{name: "blocked", share: 1, never: 200, options: "key hot\nlimit 1000000\nwindow 24h"},
	{name: "free", share: 2, never: 429, options: "policy tried {\nkey hot\nlimit 1\nwindow 24h\ndry_run\n}\npolicy apart {\nkey hot\nlimit 1\nwindow 24h\nmatch path /free/never\n}"},
	{name: "many", share: 3, never: 429, options: "key {query.k}\nlimit 1000\nwindow 10s", query: func() string { return "k=" + strconv.Itoa(rand.IntN(100_000)) }},
	{name: "ready", share: 2, never: 429, options: "key hot\nlimit 1000000\nwindow 24h\nusage /ready/usage", paths: []string{"ready", "ready/usage"}},
}

// config returns the configuration of a process of Caddy. The backend learns who let a request through.
func (s *soak) config(number int) string {
	site := ""
	for _, f := range features {
		options := "name " + f.name + "\n" + f.options
		switch f.name {
		case "free":
			options = f.options
		case "low":
			options = "name shared\n" + strings.Replace(f.options, "limit 6", "limit 12\nreserve 50%", 1)
		}
		site += "redis_ratelimit /" + f.name + "* {\n" + options + "\n}\n"
	}
	site += fmt.Sprintf(`header X-Round %d
	reverse_proxy %s {
		header_up X-Node %d
		header_up X-Source {http.redis_ratelimit.source}
		transport http { keepalive 5s }
	}
	handle_errors {
		header X-Reason {http.redis_ratelimit.reason}
		respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.source}"
	}`, s.rounds, s.backend, number)
	timeout := assert.Rounds(500*time.Millisecond, dial.DefaultTimeout)
	return caddytest.Quietly(caddytest.Config("redis_ratelimit {\n"+s.group.option()+"\ntimeout "+timeout.String()+"\n}", site))
}

// pick returns a feature by its share.
func pick() *feature {
	sum := 0
	for i := range features {
		sum += features[i].share
	}
	at := rand.IntN(sum)
	for i := range features {
		if at -= features[i].share; at < 0 {
			return &features[i]
		}
	}
	return nil
}

// target returns the path of a request.
func (f *feature) target() string {
	path := f.name
	if len(f.paths) > 0 {
		path = f.paths[rand.IntN(len(f.paths))]
	}
	if f.query != nil {
		path += "?" + f.query()
	}
	return "/" + path
}
