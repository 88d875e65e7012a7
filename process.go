package redisratelimit

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminserver"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// This file holds the state of the process: what outlives configurations, besides the collectors of
// metrics.

// pool has the stores, which outlive configurations.
var pool = storepool.NewPool(func() *storepool.Stores {
	if a := apps.newest(); a != nil {
		return a.opened
	}
	return nil
}, storepool.Metrics{
	Batch:       observeBatch,
	StoreError:  func(kind string) { storeErrors.WithLabelValues(kind).Inc() },
	RefundError: func(kind string) { refundErrors.WithLabelValues(kind).Inc() },
	DataLost: func() {
		dataLosses.Inc()
		tellDataLost()
	},
	Outage: tellOutage, Recovery: tellRecovery,
}, process.Held)

func init() {
	pool.Gauges = pool.GaugesNow
}

// defaultMaxBodies is how many bytes of bodies a process holds if no configuration says so.
const defaultMaxBodies = 128 << 20

// bodies has the bytes that all handlers hold of request bodies. The running app sets its limit.
var bodies = requestbody.NewAccount(defaultMaxBodies)

// process is what all limiters share.
var process = gate.Process{
	Held: waiting.NewRoom(waiting.MostWaiting), Uploads: requestbody.NewUploads(), Thresholds: clock.NewEventFilter(), MemorySeconds: memorySeconds,
	Blocked:    blockedTotal.Inc,
	Challenged: countChallenge,
}

// admin is what the answers of the admin API have in common over reloads.
var admin = adminserver.NewProcess(pool, nodeName, browsersThatWait, claimsOf)

// noticed are the warnings that were logged last.
var noticed notices

// apps are those whose configurations run: commands, metrics and the admin API ask them.
var apps startedApps

// startedApps are apps that were started and not yet cleaned up. There are two during a reload. Caddy
// cleans up the new one where the load fails after all, so that the one before is the running one
// again, and the old one where it succeeds.
type startedApps struct {
	mu   sync.Mutex
	apps []*App              // in the order of their starts
	last atomic.Pointer[App] // the last one of these

	// serving is the first one of these that was not stopped: a load that may still fail changes nothing for requests that wait,
	// which ask for this app again and again.
	serving atomic.Pointer[App]
}

// newest is the app of the configuration that runs now; nil where none has one.
func (s *startedApps) newest() *App { return s.last.Load() }

// add makes an app the running one, and applies its bounds to the in-process store and the bodies.
func (s *startedApps) add(a *App) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apps = append(s.apps, a)
	s.last.Store(a)
	s.choose()
	a.boundMemory()
}

// stop marks an app as one whose configuration does not go on: another one has started, this one failed to, or the process
// ends.
func (s *startedApps) stop(a *App) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.stopped = true
	s.choose()
}

// choose finds the app that serves: the last one where all were stopped. The lock is held.
func (s *startedApps) choose() {
	at := slices.IndexFunc(s.apps, func(a *App) bool { return !a.stopped })
	if at < 0 {
		s.serving.Store(s.last.Load())
		return
	}
	s.serving.Store(s.apps[at])
}

// remove takes an app away. Where it was the running one, the one before is that again.
func (s *startedApps) remove(a *App) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.apps, a)
	if at < 0 {
		return // it was never started
	}
	s.apps = slices.Delete(s.apps, at, at+1)
	switch {
	case len(s.apps) == 0:
		s.last.Store(nil)
	case at == len(s.apps):
		s.last.Store(s.apps[at-1])
		s.apps[at-1].boundMemory()
	}
	s.choose()
}

// newestPolicy returns a policy of the configuration that requests which wait are decided by now.
func newestPolicy(name string) (n rule.Newest, found bool) {
	a := apps.serving.Load()
	if a == nil {
		return n, false
	}
	r, found := a.registered[name]
	return rule.Newest{Policy: r.Policy, Variants: r.Variants, LimitFrom: strings.Trim(r.Identity.LimitFrom, "{}"), Unlimited: r.Identity.Unlimited}, found
}

// tellByRunning tells by the webhook of the configuration that runs now.
func tellByRunning(wanted webhookEvent, kind string, data map[string]any) {
	if a := apps.newest(); a != nil {
		a.webhook.tell(wanted, kind, data)
	}
}

func tellOutage(kind string) {
	tellByRunning(tellOutages, messageOutageBegan, map[string]any{"kind": kind})
}

func tellRecovery(after time.Duration) {
	tellByRunning(tellOutages, messageOutageEnded, map[string]any{"after": wholeSeconds(after)})
}

func tellDataLost() { tellByRunning(tellLoss, messageDataLost, map[string]any{}) }
