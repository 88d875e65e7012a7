// Package redisratelimit limits how many requests a client may send to a Caddy site, with counts
// that any number of Caddy nodes share through Redis.
//
// It registers the HTTP handler http.handlers.redis_ratelimit, the app redis_ratelimit that holds
// what all handlers share, and the Caddyfile directive and global option of the same name. Stores make
// the decisions: internal/failover, above internal/redis and internal/memory.
package redisratelimit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/answer"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/challenge"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
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
	options.Directive

	app       *App
	limiter   *gate.Limiter
	logger    *zap.Logger
	warner    *zap.Logger // whose warnings are kept
	listeners *listeners

	configured string // is the handler as JSON, with all defaults
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
	return options.DecodeJSON(text, (*fields)(h))
}

// Provision checks the options and makes the limiter that decides requests.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	h.warner = pool.Warnings.Watch(h.logger)
	h.SetDefaults()
	if err := h.Check(); err != nil {
		return err
	}
	text, err := json.Marshal(h) // before modules are loaded, which takes them away
	if err != nil {
		return err
	}
	h.configured = string(text)
	module, err := ctx.App(options.AppName)
	if err != nil {
		return fmt.Errorf("getting the %s app: %w", options.AppName, err)
	}
	app, ok := module.(*App)
	if !ok {
		return fmt.Errorf("the %s app is a %T", options.AppName, module)
	}
	h.app = app
	app.followServers(ctx.Modules())
	h.FailMode = cmp.Or(h.FailMode, app.FailMode)
	if h.listeners, err = newListeners(ctx, app, h.LogKeys); err != nil {
		return err
	}
	return h.makeLimiter(ctx)
}

// makeLimiter makes the limiter of the policies, which were checked.
func (h *Handler) makeLimiter(ctx caddy.Context) error {
	bounds, err := h.Body.Bounds(h.app.maxBodies())
	if err != nil {
		return err
	}
	parsed := h.Parsed()
	l := gate.Limiter{
		Challenges: h.app.opened.Challenges, Formats: parsed.Headers, Usage: parsed.Usage,
		Stores: h.app.opened, FailMode: h.FailMode, Timeout: time.Duration(h.app.Timeout),
		Status: h.Status, IsDefaultStatus: parsed.IsDefaultStatus, RetryJitter: time.Duration(h.RetryJitter), Answer: h.Answer, Bodies: bodies, BodyBounds: bounds,
		OnlyServerHandlesErrors: onlyServerHandlesErrors(ctx), ErrorRoutes: h.app.trees, FindProxies: h.app.trees.Proxies,
		Logger: h.logger, LogKeys: h.LogKeys, Listener: h.listeners, Process: &process,
	}
	rules, registry := make([]rule.Rule, 0, len(h.Policies)), options.Registry{}
	pages := map[string]*challenge.Page{} // by policy
	for _, p := range h.Policies {
		r, registered, err := h.newRule(ctx, p)
		if err != nil {
			return fmt.Errorf("policy %q: %w", p.Name, err)
		}
		if pages[p.Name], err = p.Challenge.ReadPage(); err != nil {
			return fmt.Errorf("policy %q: %w", p.Name, err)
		}
		r.ShowsIETF = parsed.Headers&answer.IETF != 0
		rules, registry[p.Name] = append(rules, r), registered
	}
	l.Rules = rule.NewSet(rules)
	readsBody, sources := l.Rules.ReadsBody(), h.app.elsewhere.Of(ctx)
	if err := h.app.elsewhere.CheckShort(readsBody); err != nil {
		return err
	}
	l.Rules.BodyPlan = l.Rules.BodyPlan.With(sources...)
	l.ShowsDecision = h.app.elsewhere.Decisions
	for i := range l.Rules.Rules {
		name := l.Rules.Rules[i].Policy.Name()
		registered := registry[name]
		l.Pages = append(l.Pages, pages[name])
		l.Counters, l.CountIfs = append(l.Counters, registered.Counters), append(l.CountIfs, registered.CountIf)
	}
	h.app.rules = append(h.app.rules, l.Rules)
	l.Rules.Overrides, l.Rules.Newest = h.app.overrides, newestPolicy
	l.Rules.Warn, l.Rules.OnNeverSet, l.Rules.OnMissingAddress = h.warnInvalid, h.warnNeverSet, h.warnMissingAddress
	l.Rules.OnNewlyUnreadable = func(r *rule.Rule, placeholder string, err error) {
		registry[r.Policy.Name()].Once.Unreadable.Do(func() { h.tellUnreadable(r, placeholder, err) })
	}
	l.Cookies, l.OnFreshCookie = h.cookieWatches(l.Rules.Rules), h.tellFreshCookie
	l.Rules.Exempt, l.Rules.ExemptCrawlers = parsed.Exempt, h.ExemptCrawlers
	if l.Rules.ExemptSources, err = h.loadSources(ctx); err != nil {
		return err
	}
	l.Crawlers, err = h.app.crawlers.identifier(h.configured, h.ExemptCrawlers, h.app.elsewhere.Crawlers)
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
func (h *Handler) newRule(ctx caddy.Context, p *options.Policy) (r rule.Rule, registered options.Registered, err error) {
	if registered, err = h.app.policy(p.Settings(), p.Identity()); err != nil {
		return r, registered, err
	}
	if r, err = p.NewRule(ctx, &registered, h.app.opened.HashSecret()); err != nil {
		return r, registered, err
	}
	if len(r.Count) > 0 {
		registered.Counters.CountLooks()
	}
	if r.Reserve != (rule.Reserve{}) {
		registered.Counters.CountReserve()
	}
	return r, registered, nil
}

// warnInvalid counts a value of a placeholder or a response's body that cannot be used, and logs one a minute for each
// option of a policy. The log does not quote values, which may come from clients.
func (h *Handler) warnInvalid(r *rule.Rule, option string, err error) {
	if !h.limiter.Counters[r.Index].CountInvalid(option, rule.ReasonLabel(err)) {
		return
	}
	message, reason := "a value cannot be used; its fallback counts"+options.Deciding, zap.Error(err)
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

// onlyServerHandlesErrors reports whether a returned error reaches the server unhandled: around the handler
// there are only subroutes without error routes of their own, and Caddy's handlers that return the errors of their
// handle_response. What others do with errors is not known. Callers of named routes are not visible.
func onlyServerHandlesErrors(ctx caddy.Context) bool {
	served := false
	for _, module := range ctx.Modules() {
		switch module := module.(type) {
		case *caddyhttp.App:
			served = true
		case *Handler, *reverseproxy.Handler, *intercept.Intercept:
		case *caddyhttp.Subroute:
			if module.Errors != nil {
				return false
			}
		default:
			return false
		}
	}
	return served
}

// RateLimiter implements [routetrace.Limiting].
func (h *Handler) RateLimiter() *gate.Limiter { return new(*h.limiter) }

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
	_ routetrace.Limiting         = (*Handler)(nil)
	_ routetrace.Warnable         = (*Handler)(nil)
)
