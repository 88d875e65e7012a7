// Package redisratelimit limits how many requests a client may send to a Caddy site, with counts
// that any number of Caddy nodes share through Redis.
//
// It registers the HTTP handler http.handlers.redis_ratelimit, the app redis_ratelimit that holds
// what all handlers share, and the Caddyfile directive and global option of the same name. The
// decisions themselves are made by the package limiter.
package redisratelimit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddyfileopt"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/challenge"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/refusal"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

func init() {
	caddy.RegisterModule(Handler{})
}

// Handler limits the requests that pass through it. A request is charged to every policy, or, if
// one of them denies it, to none.
//
// Policies are shared by name: handlers, sites and Caddy nodes that use one name share one count
// per client key.
type Handler struct {
	Common // of all policies that leave these options out

	// The policies that a request must pass. At least one.
	Policies []*Policy `json:"policies,omitempty"`

	// What happens to a request when Redis cannot decide: `local` decides by the same policies in
	// this process, `open` lets it through, `closed` answers 503. Default: that of the app.
	FailMode limiter.FailMode `json:"fail_mode,omitempty"`

	// The status of a denial, from 400 to 599. Default: 429.
	Status int `json:"status,omitempty"`

	// Clients that are never limited and never counted: addresses, CIDR ranges and
	// `private_ranges`. Default: none.
	Exempt []string `json:"exempt,omitempty"`

	// Modules of `http.ip_sources` whose ranges are exempt as well, and may change without a reload. Default: none.
	ExemptSourcesRaw []json.RawMessage `json:"exempt_sources,omitempty" caddy:"namespace=http.ip_sources inline_key=source"`

	// The names of crawlers of the global option that are exempt as well, as far as they are verified. Default: none.
	ExemptCrawlers []string `json:"exempt_crawlers,omitempty"`

	// The headers that show a client's quota: `x_ratelimit`, `ietf` (RateLimit and
	// RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-11), both, or `off`. `Retry-After`
	// comes with a denial in any case. Default: `x_ratelimit`.
	Headers []string `json:"headers,omitempty"`

	// Adds up to so much, at random, to `Retry-After`, so that clients do not all come back at once. Waits above
	// 2,147,483 seconds are told as that, less up to so much. At most 24h. Default: 0.
	RetryJitter caddy.Duration `json:"retry_jitter,omitempty"`

	// How a refusal is answered: `auto`, in the form that the client understands: gRPC's, Connect's, MCP's, S3's, a
	// registry's, ACME's, an event stream, JSON, or a line of text; `text`, the line alone; `json` and `problem`, JSON with
	// the type application/json or application/problem+json (RFC 9457); `jsonrpc`, an error of JSON-RPC 2.0 to its requests,
	// and the line to others; `none`, without a body; `error`, by the error routes. What is written out goes before error
	// routes. Default: by an error route that can handle the status, else as `auto`.
	Answer refusal.Answer `json:"answer,omitempty"`

	// What is read of a request's body for the values in it. Default: up to 1 MiB within 10 seconds.
	Body *Body `json:"body,omitempty"`

	// A path at which clients read their own quotas: GET and HEAD of it are answered with JSON and charged
	// nothing, by every policy that is enforced for the client, whatever its `match` says. It matches as
	// Caddy's path matcher does, without wildcards, and must lie within what this handler gets. Default:
	// none.
	Usage string `json:"usage,omitempty"`

	// Whether clients' keys may appear in this module's log lines about denials. Default: false.
	LogKeys bool `json:"log_keys,omitempty"`

	app      *App
	settings handlerSettings
	limiter  *gate.Limiter
	logger   *zap.Logger
	warner   *zap.Logger // whose warnings are kept
	events   *eventEmitter
	unnamed  bool // one of the policies has no name

	configured string // is the handler as JSON, with all defaults
}

const (
	minStatus = 400
	maxStatus = 599

	maxRetryJitter    = 24 * time.Hour
	retryJitterBounds = "a duration from 0 to 24h, such as 5s"
)

// handlerOptions are the options of a handler itself, in the order in which errors name and check them.
var handlerOptions = []option[Handler]{
	{
		name: "policy", form: "<name>", lines: "<the options above, except name>",
	}, {
		name: "exempt", form: "<address, range or private_ranges>... [crawler <crawler>...] | crawler <crawler>... | source <module>",
		advice: "write exempt, such as exempt private_ranges", words: "whitelist allowlist allow ignore skip bypass",
		parse: func(p *optionParser, h *Handler) error {
			e, err := p.parseExempt()
			h.Exempt, h.ExemptCrawlers = append(h.Exempt, e.addresses...), append(h.ExemptCrawlers, e.crawlers...)
			h.ExemptSourcesRaw = append(h.ExemptSourcesRaw, e.sources...)
			return err
		},
		check: func(h *Handler) (err error) {
			h.settings.exempt, err = rule.ParseExempt(h.Exempt)
			return err
		},
	}, {
		name: "fail_mode", form: "local|open|closed", shown: true,
		advice: "write fail_mode closed, open or local", words: "failure_mode_deny fault_tolerant fail_open fail_closed allow_on_error",
		parse: one(func(h *Handler) *limiter.FailMode { return &h.FailMode }, text),
		check: oneOf("fail_mode", func(h *Handler) *limiter.FailMode { return &h.FailMode }, limiter.FailModes()...),
	}, {
		name: "status", form: "<400-599>", shown: true,
		advice: "write status, such as status 503", words: "limit_req_status deny_status status_code reject_status",
		parse: one(func(h *Handler) *int { return &h.Status }, number(minStatus, maxStatus)),
		fill:  func(h *Handler) { h.Status = cmp.Or(h.Status, http.StatusTooManyRequests) },
		check: func(h *Handler) error {
			if h.Status < minStatus || h.Status > maxStatus {
				return fmt.Errorf("status %d: use a number from %d to %d", h.Status, minStatus, maxStatus)
			}
			return nil
		},
	}, {
		name: "headers", form: "off | x_ratelimit [ietf] | ietf",
		parse: some(func(h *Handler) *[]string { return &h.Headers }, quotaheader.FormatsHint()),
		fill: func(h *Handler) {
			if len(h.Headers) == 0 {
				h.Headers = []string{quotaheader.FormatXRateLimit}
			}
		},
		check: func(h *Handler) (err error) {
			h.settings.headers, err = quotaheader.ParseFormats(h.Headers)
			return err
		},
	}, {
		name: "retry_jitter", form: "<duration>", shown: true, advice: "write retry_jitter, such as retry_jitter 5s", words: "jitter",
		parse: one(func(h *Handler) *caddy.Duration { return &h.RetryJitter }, duration(0, retryJitterBounds)),
		check: func(h *Handler) error {
			if h.RetryJitter < 0 || time.Duration(h.RetryJitter) > maxRetryJitter {
				return fmt.Errorf("retry_jitter %v: use %s", time.Duration(h.RetryJitter), retryJitterBounds)
			}
			return nil
		},
	}, {
		name: "answer", form: "auto|text|json|problem|jsonrpc|none|error", advice: "write answer problem", words: "problem_details",
		parse: one(func(h *Handler) *refusal.Answer { return &h.Answer }, text),
		check: func(h *Handler) error {
			if !h.Answer.IsKnown() {
				return fmt.Errorf("answer %q: use %s", secretfile.Redact(h.Answer), refusal.AnswersHint())
			}
			return nil
		},
	}, {
		name: "body", form: "<size> [<duration>]", shown: true,
		advice: "write body, such as body 1MiB 10s", words: "max_size max_body_size body_size",
		parse: func(p *optionParser, h *Handler) (err error) {
			h.Body, err = p.parseBody()
			return err
		},
		check: func(h *Handler) error { return h.Body.check() },
	}, {
		name: "log_keys", advice: "write log_keys", words: "log_key",
		parse: bare(func(h *Handler) *bool { return &h.LogKeys }),
	}, {
		name: "usage", form: "<path>",
		parse: one(func(h *Handler) *string { return &h.Usage }, text),
		check: func(h *Handler) (err error) {
			h.settings.usage, err = gate.ParseUsagePath(h.Usage)
			return err
		},
	},
}

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.redis_ratelimit",
		New: func() caddy.Module { return new(Handler) },
	}
}

// UnmarshalJSON refuses unknown fields, as Caddy does, and values of the wrong type.
func (h *Handler) UnmarshalJSON(text []byte) error {
	type fields Handler
	return caddyfileopt.DecodeJSON(text, (*fields)(h))
}

// Provision checks the options and makes the limiter that decides requests.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	h.warner = pool.Warnings.Watch(h.logger)
	h.unnamed = slices.ContainsFunc(h.Policies, func(p *Policy) bool { return p != nil && p.Name == "" })
	h.setDefaults()
	if err := h.check(); err != nil {
		return err
	}
	text, err := json.Marshal(h) // before modules are loaded, which takes them away
	if err != nil {
		return err
	}
	h.configured = string(text)
	module, err := ctx.App(appName)
	if err != nil {
		return fmt.Errorf("getting the %s app: %w", appName, err)
	}
	app, ok := module.(*App)
	if !ok {
		return fmt.Errorf("the %s app is a %T", appName, module)
	}
	h.app = app
	app.followServers(ctx.Modules())
	h.FailMode = cmp.Or(h.FailMode, app.FailMode)
	if h.events, err = newEventEmitter(ctx, h.LogKeys); err != nil {
		return err
	}
	return h.makeLimiter(ctx)
}

// makeLimiter makes the limiter of the policies, which were checked.
func (h *Handler) makeLimiter(ctx caddy.Context) error {
	bounds, err := h.Body.bounds(h.app.maxBodies())
	if err != nil {
		return err
	}
	l := gate.Limiter{
		Challenges: h.app.opened.Challenges, Formats: h.settings.headers, Usage: h.settings.usage,
		Stores: h.app.opened, FailMode: h.FailMode, Timeout: time.Duration(h.app.Timeout),
		Status: h.Status, RetryJitter: time.Duration(h.RetryJitter), Answer: h.Answer, Bodies: bodies, BodyBounds: bounds,
		OnlyServerHandlesErrors: onlyServerHandlesErrors(ctx), ErrorRoutes: h.app.errorRoutes, FindProxies: routetrace.Proxies,
		Logger: h.logger, LogKeys: h.LogKeys, Events: h.events, Process: &process,
	}
	if h.app.webhook.tellsOfClients() {
		l.Webhook = clientEvents{h.app.webhook, h.app.opened, h.LogKeys}
	}
	rules, registry := make([]rule.Rule, 0, len(h.Policies)), registeredPolicies{}
	pages := map[string]*challenge.Page{} // by policy
	for _, p := range h.Policies {
		r, registered, err := h.newRule(ctx, p)
		if err != nil {
			return fmt.Errorf("policy %q: %w", p.Name, err)
		}
		if pages[p.Name], err = p.Challenge.readPage(); err != nil {
			return fmt.Errorf("policy %q: %w", p.Name, err)
		}
		r.ShowsIETF = h.settings.headers&quotaheader.IETF != 0
		rules, registry[p.Name] = append(rules, r), registered
	}
	l.Rules = rule.NewSet(rules)
	readsBody, sources := l.Rules.ReadsBody(), h.app.elsewhere.of(ctx)
	if err := h.app.elsewhere.checkShort(readsBody); err != nil {
		return err
	}
	l.Rules.BodyPlan = l.Rules.BodyPlan.With(sources...)
	l.ShowsDecision = h.app.elsewhere.decisions
	for i := range l.Rules.Rules {
		name := l.Rules.Rules[i].Policy.Name()
		registered := registry[name]
		l.Pages = append(l.Pages, pages[name])
		l.Counters, l.CountIfs = append(l.Counters, registered.counters), append(l.CountIfs, registered.countIf)
	}
	h.app.rules = append(h.app.rules, l.Rules)
	l.Rules.Overrides, l.Rules.Newest = h.app.overrides, newestPolicy
	l.Rules.Warn, l.Rules.OnNeverSet, l.Rules.OnMissingAddress = h.warnInvalid, h.warnNeverSet, h.warnMissingAddress
	l.Rules.OnNewlyUnreadable = func(r *rule.Rule, placeholder string, err error) {
		registry[r.Policy.Name()].once.unreadable.Do(func() { h.tellUnreadable(r, placeholder, err) })
	}
	l.Cookies, l.OnFreshCookie = h.cookieWatches(l.Rules.Rules), h.tellFreshCookie
	l.Rules.Exempt, l.Rules.ExemptCrawlers = h.settings.exempt, h.ExemptCrawlers
	if l.Rules.ExemptSources, err = h.loadSources(ctx); err != nil {
		return err
	}
	l.Crawlers, err = h.app.crawlers.identifier(h.configured, h.ExemptCrawlers, h.app.elsewhere.crawlers)
	if err != nil {
		return err
	}
	if l.Crawlers != nil {
		l.Crawlers.Count = h.countCrawler
	}
	if l.Rules.GoesByAddress() || l.Crawlers != nil {
		l.Forwarded = &rule.ForwardedWatch{OnUnbelieved: h.warnUnbelieved}
		if l.Rules.GoesByClient() || l.Crawlers != nil {
			l.Forwarded.OnWritable = h.warnWritable
		}
	}
	l.Rules.WatchHidden(h.noteHidden)
	h.limiter = gate.New(l)
	return nil
}

// loadSources makes the modules whose ranges are exempt.
func (h *Handler) loadSources(ctx caddy.Context) (sources []*rule.ExemptSource, err error) {
	if len(h.ExemptSourcesRaw) == 0 {
		return nil, nil
	}
	loaded, err := ctx.LoadModule(h, "ExemptSourcesRaw")
	if err != nil {
		return nil, fmt.Errorf("exempt source: %w", err)
	}
	modules, _ := loaded.([]any)
	for _, module := range modules {
		source, ok := module.(caddyhttp.IPRangeSource)
		if !ok {
			return nil, fmt.Errorf("exempt source: the module %T has no ranges", module)
		}
		sources = append(sources, rule.NewExemptSource(source))
	}
	return sources, nil
}

// countCrawler counts a request that claims a crawler, and logs one that lies, without its address unless keys may be logged.
func (h *Handler) countCrawler(i crawlers.Identity, address netip.Addr) {
	crawlerRequests.WithLabelValues(i.Claimed(), i.Status().String()).Inc()
	if i.Status() != crawlers.Forged {
		return
	}
	if entry := h.logger.Check(zap.DebugLevel, "a request claims a crawler that its address is none of"); entry != nil {
		fields := []zap.Field{zap.String("crawler", i.Claimed())}
		if h.LogKeys {
			fields = append(fields, zap.Stringer("address", address))
		}
		entry.Write(fields...)
	}
}

// newRule makes the rule of a policy.
func (h *Handler) newRule(ctx caddy.Context, p *Policy) (r rule.Rule, registered registeredPolicy, err error) {
	if registered, err = h.app.policy(p.settings(), p.identity()); err != nil {
		return r, registered, err
	}
	r = p.parsed
	r.Policy, r.Numbers.Variants = registered.policy, registered.variants
	r.Key.HashPasswords(h.app.opened.HashSecret())
	if r.Match, err = p.loadMatchers(ctx, "Match", p.Match); err != nil {
		return r, registered, fmt.Errorf("match: %w", err)
	}
	if r.Count, err = p.loadMatchers(ctx, "Count", p.Count); err != nil {
		return r, registered, fmt.Errorf("count: %w", err)
	}
	if len(r.Count) > 0 {
		registered.counters.CountLooks()
	}
	if r.Reserve != (rule.Reserve{}) {
		registered.counters.CountReserve()
	}
	return r, registered, nil
}

// warnInvalid counts a value of a placeholder or a response's body that cannot be used, and logs one a minute for each
// option of a policy. The log does not quote values, which may come from clients.
func (h *Handler) warnInvalid(r *rule.Rule, option string, err error) {
	if !h.limiter.Counters[r.Index].CountInvalid(option, rule.ReasonLabel(err)) {
		return
	}
	message, reason := "a value cannot be used; its fallback counts"+deciding, zap.Error(err)
	if errors.Is(err, rule.ErrNoRoom) {
		message, reason = "no room to read a request's body, which gets 503; a client may hold an eighth of max_bodies", zap.Skip()
	}
	h.warner.Warn(message, zap.String("policy", r.Policy.Name()), zap.String("option", option), reason)
}

// tellUnreadable logs, once for a policy, that a value is unreadable which version 1.0 counted as it stood. It quotes none.
func (h *Handler) tellUnreadable(r *rule.Rule, placeholder string, err error) {
	h.logger.Info("a value in the key is unreadable, which version 1.0 counted as it stood: servers read it in different ways, so that "+
		"on_empty_key decides, with raw_key too (docs/keys.md, Spellings)",
		zap.String("policy", r.Policy.Name()), zap.String("placeholder", rule.ShortNames("{"+placeholder+"}")), zap.String("reason", rule.ReasonLabel(err)),
		zap.String("why", err.Error()), zap.Bool("raw_key", r.Key.Raw))
}

// cookieWatches returns the watches of cookies in keys; nil: there is none.
func (h *Handler) cookieWatches(rules []rule.Rule) (watches []gate.CookieWatch) {
	for i := range rules {
		for _, name := range rules[i].Key.Cookies() {
			watches = append(watches, gate.CookieWatch{Policy: rules[i].Policy.Name(), Cookie: name, CookieWatch: storepool.NewCookieWatch(name)})
		}
	}
	return watches
}

// tellFreshCookie logs that a policy counts by a cookie which nearly each response sets anew.
func (h *Handler) tellFreshCookie(w *gate.CookieWatch) {
	h.logger.Info("responses to at least 90 of the first 100 requests with the cookie of a key set it anew, so that each request has a "+
		"fresh quota: count by what stays, such as {http.auth.user.id} or a header of forward_auth",
		zap.String("policy", w.Policy), zap.String("cookie", w.Cookie))
}

// warnNeverSet logs that an option uses a placeholder that had no value in any request so far.
func (h *Handler) warnNeverSet(r *rule.Rule, option, placeholder string) {
	h.warner.Warn("a placeholder was empty in each of the first 100 requests: check its name, and that what sets it runs before this handler",
		zap.String("policy", r.Policy.Name()), zap.String("option", option), zap.String("placeholder", "{"+placeholder+"}"))
}

// warnMissingAddress logs, once in a configuration, that a rule's key cannot tell clients apart.
func (h *Handler) warnMissingAddress(r *rule.Rule, remedy string) {
	h.app.missingAddress.Do(func() {
		h.warner.Warn("requests over a unix socket have no client address: all clients count as one, with on_empty_key skip as none; "+remedy,
			zap.String("policy", r.Policy.Name()))
	})
}

// warnUnbelieved logs, once in a configuration, that all clients have the address of a proxy.
func (h *Handler) warnUnbelieved() {
	h.app.unbelieved.Do(func() {
		ofCrawlers := ""
		if h.app.crawlers != nil {
			ofCrawlers = "; the true ones of the option crawlers are unknown as well"
		}
		h.warner.Warn("each of the first 100 requests came with a public address in X-Forwarded-For or Forwarded, and none was believed: " +
			"all clients of a proxy in front count as that proxy, or are exempt with it" + ofCrawlers + "; " +
			"name the proxy in trusted_proxies of the global " +
			"option servers, with trusted_proxies_strict unless it overwrites the header, and with a CDN in front of it by the CDN's addresses too")
	})
}

// warnWritable logs, once in a configuration, that clients may write the addresses that count.
func (h *Handler) warnWritable(found *rule.WritableAddress) {
	h.app.writable.Do(func() { h.warner.Warn(found.String()) })
}

// noteHidden logs, once in a configuration, that all clients may have the address of a network in front.
func (h *Handler) noteHidden(r *rule.Rule) {
	h.app.hidden.Do(func() {
		h.logger.Info("each of the first 1,000 requests that a policy denied came from one private address, and no header named a client: "+
			"where clients are many, the network in front, such as that of containers, hides them; "+
			"give Caddy the network of the host, or a proxy in front that names clients",
			zap.String("policy", r.Policy.Name()))
	})
}

// setDefaults sets options that were left out, except the fail mode, which comes from the app.
func (h *Handler) setDefaults() {
	h.inherit(&commonDefaults)
	for _, p := range h.Policies {
		if p != nil { // which check refuses
			p.setDefaults(&h.Common)
		}
	}
	for i := range handlerOptions {
		if fill := handlerOptions[i].fill; fill != nil {
			fill(h)
		}
	}
}

// RateLimiter implements [routetrace.Limiting].
func (h *Handler) RateLimiter() *gate.Limiter { return new(*h.limiter) }

// loadMatchers makes the matchers of a field of the policy.
func (p *Policy) loadMatchers(ctx caddy.Context, field string, raw caddyhttp.RawMatcherSets) (sets caddyhttp.MatcherSets, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	loaded, err := ctx.LoadModule(p, field)
	if err == nil {
		err = sets.FromInterface(loaded)
	}
	return sets, err
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
	_ routetrace.Limiting         = (*Handler)(nil)
	_ routetrace.Warnable         = (*Handler)(nil)
)
