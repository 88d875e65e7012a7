// Package gate takes a request through a limiter: it evaluates the rules, has the store decide, refuses the request or
// passes it on, and settles its cost by the response. The handler does so with requests of clients. Explain and replay
// take the same steps with requests that no client waits for.
package gate

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/answer"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/challenge"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// Limiter is the rules and options of a handler. [New] makes one.
type Limiter struct {
	Rules    *rule.Set
	Counters []*storepool.PolicyStats // by rule
	Formats  answer.Formats
	Usage    UsagePath // where clients read their quotas

	// Forwarded looks at the first requests, and CountIfs, by rule, at the first responses that count_if judges. Nil:
	// nothing is looked for.
	Forwarded *rule.ForwardedWatch
	CountIfs  []*storepool.CountIfWatch

	// Cookies look at the first responses to requests with a cookie that is in a key. Nil: nothing is looked for.
	Cookies       []CookieWatch
	OnFreshCookie func(*CookieWatch) // required with Cookies

	Stores   *storepool.Stores
	FailMode limiter.FailMode
	Timeout  time.Duration // of a decision by Redis

	// Bodies counts the bytes of request bodies that this process holds for their values, and BodyBounds bound each of them.
	// Required if a rule uses such a value.
	Bodies     *requestbody.Account
	BodyBounds requestbody.Bounds

	Status          int               // of a denial
	IsDefaultStatus bool              // the configuration writes none
	RetryJitter     time.Duration     // the most that Retry-After gets longer by
	Answer          answer.Preference // how refusals are answered

	// Crawlers identifies the crawlers that requests come from. Nil: nothing asks for crawlers.
	Crawlers *Crawlers

	// Challenges signs what browsers bring along that wait. Nil: no browser waits.
	Challenges *challenge.Keeper

	// Pages are, by rule, the operator's pages on which browsers wait; nil: the built-in one. Without any all have that.
	Pages []*challenge.Page

	// ShowsDecision says that other handlers name placeholders of what was decided, so that these must be empty, and no
	// names, for requests that no policy concerns.
	ShowsDecision bool

	OnlyServerHandlesErrors bool // no handler between this one and the server does

	// ErrorRoutes says whether an error route of the request's server can answer an error of a status. Required.
	ErrorRoutes interface {
		CanHandle(r *http.Request, status int) bool
	}

	// FindProxies returns what the reverse_proxy handlers of a server may do. Nil: all of it.
	FindProxies func(*caddyhttp.Server) Proxies

	Logger  *zap.Logger
	LogKeys bool
	Process *Process

	// Listener is told what happens to clients.
	Listener Listener

	// What the rules use. What no rule uses is not met on the way of a request.
	hasDryRuns    bool // dry_run, or enforce for a part of the keys
	challenges    bool // challenge: denied browsers may wait
	bans          bool // ban
	delays        bool // a queue holds requests
	countsRunning bool // max_concurrent
	settles       bool // count_if or cost: the response decides what a request is charged
	timesBackend  bool // cost backend_time
	notifies      bool // notify: events at fractions of the capacity
	readsBody     bool // a placeholder of the request's body
	waits         bool // wait: requests wait for units of running requests
	looks         bool // count: some requests only look
	notesEarly    bool // dry_run, challenge or wait, of which the decision has notes before there is an outcome
	isPlain       bool // no header shows a quota, and of the above there are at most ban and notify

	banSigns, thresholdSigns bool // the listener takes these signs of earlier events
	showsSigns               bool // it takes one of both

	usageCache *usageCache
	server     *ownServer
}

// Process is what the limiters of all configurations share.
type Process struct {
	// Held counts the requests that queues hold now, and the requests that wait for units of running requests.
	Held *waiting.Room

	// Uploads counts the refused requests whose bodies are still read. Nil: none is.
	Uploads *requestbody.Uploads

	// Thresholds are the marks of quotas that have had their event.
	Thresholds *clock.EventFilter

	// Challenged counts what became of challenges.
	Challenged func(challenge.Result)

	// Blocked counts a request that a block for all policies refuses. Nil: no request is counted.
	Blocked func()

	// MemorySeconds records the time that one in [memorySampled] decisions without Redis takes.
	MemorySeconds interface{ Observe(seconds float64) }
}

// New returns a limiter of rules and options.
func New(l Limiter) *Limiter {
	for i := range l.Rules.Rules {
		r := &l.Rules.Rules[i]
		l.hasDryRuns = l.hasDryRuns || r.DryRun || r.Rollout != nil
		l.challenges = l.challenges || l.Challenges != nil && r.Challenges() && !r.DryRun
		l.bans = l.bans || r.Policy.Bans()
		l.delays = l.delays || r.Policy.Settings.Queues()
		l.countsRunning = l.countsRunning || r.Policy.CountsRunning
		l.waits = l.waits || r.Wait.Longest > 0
		l.looks = l.looks || len(r.Count) > 0
		l.settles = l.settles || r.AwaitsResponse()
		l.timesBackend = l.timesBackend || r.Cost.TimesBackend()
		l.notifies = l.notifies || len(r.Notify) > 0
	}
	l.notesEarly = l.hasDryRuns || l.challenges || l.waits
	l.isPlain = l.Formats == 0 && !l.notesEarly && !l.delays && !l.countsRunning && !l.settles && !l.looks
	l.readsBody = l.Rules.ReadsBody()
	if l.Listener != nil {
		l.banSigns, l.thresholdSigns = l.Listener.TakesSigns()
		l.showsSigns = l.banSigns || l.thresholdSigns
	}
	l.usageCache, l.server = newUsageCache(), &ownServer{findProxies: l.FindProxies}
	return &l
}
