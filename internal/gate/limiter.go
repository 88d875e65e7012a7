// Package gate takes a request through a limiter: it evaluates the rules, has the store decide, refuses the request or
// passes it on, and settles its cost by the response. The handler does so with requests of clients. Explain and replay
// take the same steps with requests that no client waits for.
package gate

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/challenge"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/refusal"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/requestbody"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// Limiter is the rules and options of a handler. [New] makes one.
type Limiter struct {
	Rules    *rule.Set
	Counters []*storepool.Policy // by rule
	Formats  quotaheader.Formats
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

	Status      int            // of a denial
	RetryJitter time.Duration  // the most that Retry-After gets longer by
	Answer      refusal.Answer // how refusals are answered

	// Crawlers identifies those that requests come from. Nil: nothing asks for crawlers.
	Crawlers *Crawlers

	// Challenges signs what browsers bring along that wait. Nil: none does.
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
	Events  events
	Process *Process

	// Webhook tells a receiver what happens. Nil: there is none.
	Webhook Webhook

	// What the rules use. What none of them uses is not met on the way of a request.
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

	webhookThresholds bool // the webhook tells of fractions of the capacity

	usageCache *usageCache
	proxies    *serverProxies
}

// events reach the listeners of a configuration. No request waits for these.
type events interface {
	// Denied reports a denial.
	Denied(c *limiter.Check, source limiter.Source)

	// Banned reports a ban that begins.
	Banned(c *limiter.Check, source limiter.Source, dryRun bool)

	// ListensForThresholds reports whether an event of a threshold would reach a listener.
	ListensForThresholds() bool

	// Threshold reports that the use of a quota has reached a fraction of it, and waits for the listeners.
	Threshold(c *limiter.Check, mark rule.Fraction, source limiter.Source, dryRun bool)

	// InBackground runs a function that emits events, and reports whether it does: not if too many are running.
	InBackground(emit func()) bool
}

// Process is what the limiters of all configurations share.
type Process struct {
	// Held counts the requests that queues hold now, and those that wait for units of running requests.
	Held *waiting.Room

	// Thresholds are the marks of quotas that have had their event.
	Thresholds *clock.EventFilter

	// Challenged counts what became of challenges.
	Challenged func(challenge.Outcome)

	// Blocked counts a request that a block for all policies refuses. Nil: none is counted.
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
	l.webhookThresholds = l.Webhook != nil && l.Webhook.TellsThresholds()
	l.usageCache, l.proxies = newUsageCache(), &serverProxies{find: l.FindProxies}
	return &l
}

// describe returns the log fields of a denial by a check, for a reason that a source gave.
func (l *Limiter) describe(c *limiter.Check, source limiter.Source, reason rule.Reason) []zap.Field {
	fields := []zap.Field{
		zap.String("policy", c.Policy.Name()), zap.String("reason", string(reason)), zap.String("source", string(source)),
		zap.Duration("retry_after", c.Result.RetryAfter),
	}
	if l.LogKeys {
		fields = append(fields, zap.Stringer("key", c.Key))
	}
	return fields
}
