package redisratelimit

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/explain"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

func init() {
	caddy.RegisterModule(adminRoutes{})
}

// adminRoutes answers questions about the limits of the running configuration at Caddy's admin endpoint,
// below /redis_ratelimit/. Keys travel in bodies, because Caddy logs admin URLs.
type adminRoutes struct{}

// CaddyModule returns the Caddy module information.
func (adminRoutes) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api." + appName, New: func() caddy.Module { return new(adminRoutes) }}
}

// Routes returns the routes of the API.
func (adminRoutes) Routes() []caddy.AdminRoute {
	const base = "/" + appName + "/"
	return []caddy.AdminRoute{
		{Pattern: base + "policies", Handler: adminapi.Serve(http.MethodGet, toRunning((*App).servePolicies))},
		{Pattern: base + "state", Handler: adminapi.Serve(http.MethodPost, toRunning((*App).serveState))},
		{Pattern: base + "reset", Handler: adminapi.Serve(http.MethodPost, toRunning((*App).serveReset))},
		{Pattern: base + "top", Handler: adminapi.Serve(http.MethodGet, toRunning((*App).serveTop))},
		{Pattern: base + "override", Handler: adminapi.Serve(http.MethodPost, toRunning((*App).serveOverride))},
		{Pattern: base + "overrides", Handler: adminapi.Serve(http.MethodGet, toRunning((*App).serveOverrides))},
		{Pattern: base + "bans", Handler: adminapi.Serve(http.MethodGet, toRunning((*App).serveBans))},
		{Pattern: base + "explain", Handler: adminapi.Serve(http.MethodPost, toRunning((*App).serveExplain))},
	}
}

// toRunning passes a question to the running app.
func toRunning(ask func(a *App, r *http.Request) (any, bool, error)) adminapi.Answer {
	return func(r *http.Request) (any, bool, error) {
		app := apps.newest()
		if app == nil {
			return nil, false, caddy.APIError{HTTPStatus: http.StatusNotFound, Err: fmt.Errorf("the running configuration has no %s", appName)}
		}
		defer app.use().End() // what else the app holds stays open too
		return ask(app, r)
	}
}

// registeredNamed is the policy of a name.
func (a *App) registeredNamed(name string) (registeredPolicy, error) {
	registered, found := a.registered[name]
	if !found {
		return registered, adminapi.UnknownPolicyError{Name: name}
	}
	return registered, nil
}

// readQuota reads which quota a question is about. Without a key it is the whole policy.
func (a *App) readQuota(r *http.Request) (registered registeredPolicy, key *limiter.EncodedKey, err error) {
	var question adminapi.QuotaRequest
	if err := adminapi.ReadQuestion(r, &question); err != nil {
		return registered, nil, err
	}
	if question.Policy == "" {
		return registered, nil, adminapi.BadInput("policy: name one")
	}
	if registered, err = a.registeredNamed(question.Policy); err != nil || !question.Key.Given {
		return registered, nil, err
	}
	parsed, err := escape.ParseKey(question.Key.Text)
	if err != nil {
		return registered, nil, adminapi.BadInput("%v", err)
	}
	return registered, new(limiter.AsEncoded(parsed)), nil
}

// hint helps who gives a client's whole address where the policy counts by its prefix.
func (r *registeredPolicy) hint(key limiter.EncodedKey) string {
	if prefix := r.identity.Shorten(key.String()); prefix != key.String() {
		return "clients' addresses are counted by their prefix here: this one's key is " + prefix
	}
	return ""
}

// servers are those of the running configuration.
func (a *App) servers() map[string]*caddyhttp.Server {
	module, err := a.ctx.AppIfConfigured("http")
	if err != nil {
		return nil
	}
	if app, ok := module.(*caddyhttp.App); ok {
		return app.Servers
	}
	return nil
}

// servePolicies lists the policies, and tells how the store is.
func (a *App) servePolicies(r *http.Request) (any, bool, error) {
	stores := a.use()
	defer stores.End()
	report := adminapi.PoliciesReport{Store: a.storeReport(r, stores), Policies: []adminapi.PolicyReport{}}
	handlers := a.handlersOf()
	for _, registered := range a.registered {
		s, id := registered.policy.Settings(), registered.identity
		p := adminapi.PolicyReport{
			Name: s.Name, Algorithm: s.Algorithm, Limit: s.Limit, LimitFrom: id.limitFrom, MaxConcurrent: s.MaxConcurrent,
			Calendar: s.Calendar, TimeZone: s.Zone(), Burst: s.Burst, BurstFrom: id.burstFrom,
			Unlimited: id.unlimited, Ban: banReport(s), Lease: a.leaseReport(registered.policy), IPv4Prefix: id.IPv4, IPv6Prefix: id.IPv6, Handlers: append([]string{}, handlers[s.Name]...),
		}
		if id.unlimited {
			p.Limit, p.MaxConcurrent = 0, 0
		}
		if s.Calendar == "" {
			p.Window = explain.Seconds(s.Window)
		}
		all, clients := a.overrides.OfPolicy(s.Name)
		p.Override, p.ClientOverrides = explain.Override(all), clients
		if registered.policy.CountsRunning() {
			p.LimitFrom, p.MaxConcurrentFrom = "", id.limitFrom
			p.NodeTimeout, p.Running = explain.Seconds(s.NodeTimeout), new(stores.Running(s.Name))
		}
		if s.MaxDelay != nil {
			p.MaxDelay = new(explain.Seconds(*s.MaxDelay))
		}
		report.Policies = append(report.Policies, p)
	}
	slices.SortFunc(report.Policies, func(a, b adminapi.PolicyReport) int { return cmp.Compare(a.Name, b.Name) })
	return report, false, nil
}

// storeReport has Redis decide by the configured policies for a reserved key: a PING would be answered where
// decisions are not.
func (a *App) storeReport(r *http.Request, stores *storepool.Stores) adminapi.StoreReport {
	report := adminapi.StoreReport{Kind: "memory", Healthy: true, MemoryKeys: a.opened.Memory.Store.Len(), MaxKeys: a.maxKeys()}
	if stores.Redis == nil {
		return report
	}
	options := stores.Options
	report.Kind, report.Mode, report.Addresses = "redis", string(cmp.Or(options.Client.Mode, dial.Standalone)), options.Client.Addresses
	report.Database, report.KeyPrefix, report.HashKeys = options.Client.DB, options.Naming.Prefix, options.Naming.Secret != ""
	report.FailMode, report.Timeout = string(a.FailMode), explain.Seconds(time.Duration(a.Timeout))
	report.Breaker = "closed"
	if failing, probe := stores.Failing(); failing {
		report.Breaker, report.NextProbe = "open", explain.Seconds(probe)
	}
	began := time.Now()
	var policies []*limiter.Policy
	for _, registered := range a.registered {
		policies = append(policies, registered.policy)
	}
	if err := stores.Redis.Store.ProbeAll(r.Context(), policies); err != nil {
		report.Healthy, report.Error = false, adminapi.UnavailableText(err)
		return report
	}
	report.RoundTrip = explain.Seconds(time.Since(began))
	return report
}

// serveState reports the state of a quota.
func (a *App) serveState(r *http.Request) (any, bool, error) {
	registered, key, err := a.readQuota(r)
	if err != nil {
		return nil, false, err
	}
	if key == nil {
		return nil, false, adminapi.BadInput("key: name one; `top` and `explain` show keys")
	}
	stores := a.use()
	defer stores.End()
	check := limiter.Check{Policy: registered.policy, Key: *key}
	override := a.overrides.Find(registered.policy.Name(), *key)
	if override != nil && override.Action == overrides.Limit {
		check.Policy = override.Policy(registered.policy)
	}
	report := adminapi.StateReport{Policy: registered.policy.Name(), Key: escape.Key(key.String()), Hint: registered.hint(*key), Override: explain.Override(override),
		DryRun: a.enforcesNowhere(registered.policy.Name(), *key)}
	if units, lasts := stores.Leased(registered.policy.Name(), *key); units > 0 {
		report.Leased = &adminapi.LeasedReport{Units: units, Lasts: explain.Seconds(lasts)}
	}
	source, err := stores.Peek(r.Context(), &check)
	if err == nil || stores.HasLocalState(registered.policy, *key) {
		if override != nil && override.Action == overrides.Block {
			source, check.Result = rule.SourceOverride, rule.BlockResult(override, a.overrides.Now())
		}
		report.Source = string(source)
		if registered.identity.unlimited && (override == nil || override.Action == overrides.Exempt) {
			report.Hint = cmp.Or(report.Hint, "each request brings its limit along in "+registered.identity.limitFrom+", or is unlimited; explain shows what one of them gets")
		} else {
			report.QuotaReport = new(explain.Quota(check.Policy, check.Result))
		}
	}
	if stores.Redis != nil && (err == nil || redis.Answered(err)) {
		if registered.policy.CountsRunning() {
			report.Node = stores.Redis.Store.NodeName()
		}
		err = cmp.Or(err, addStored(r, stores.Redis, &report, registered.policy, *key))
	}
	if err != nil {
		report.Error = adminapi.UnavailableText(err)
	}
	return report, err != nil, nil
}

// leaseReport returns how long a node leases units of a policy at most; nil where it has no leases.
func (a *App) leaseReport(p *limiter.Policy) *float64 {
	if p.Settings().Lease == 0 || a.opened.Options == nil {
		return nil
	}
	return new(explain.Seconds(p.LongestLease()))
}

// addStored adds the keys in Redis that hold a quota.
func addStored(r *http.Request, remote *storepool.Redis, report *adminapi.StateReport, p *limiter.Policy, key limiter.EncodedKey) error {
	stored, err := remote.Store.Inspect(r.Context(), p, key)
	for _, s := range stored {
		ttl := explain.Seconds(s.TTL)
		if s.TTL < 0 {
			ttl = -1 // it has none
		}
		report.Keys = append(report.Keys, adminapi.RedisKeyReport{Name: escape.Key(s.Name), Type: s.Type, TTL: ttl, Value: s.Value})
	}
	return err
}

// serveReset forgets a quota, or all of a policy.
func (a *App) serveReset(r *http.Request) (any, bool, error) {
	registered, key, err := a.readQuota(r)
	if err != nil {
		return nil, false, err
	}
	stores := a.use()
	defer stores.End()
	var report adminapi.ResetReport
	var found failover.ResetCount
	if key != nil {
		report.Hint = registered.hint(*key)
		found, err = stores.Reset(r.Context(), registered.policy, *key)
	} else {
		found, err = stores.ResetAll(r.Context(), registered.policy.Name())
	}
	switch {
	case err != nil:
		report.Error, report.Deleted, report.DeletedHere = adminapi.UnavailableText(err), found.Shared, found.Here
	case stores.Redis != nil:
		report.Deleted = found.Shared
	default:
		report.Deleted = found.Here
	}
	return report, err != nil, nil
}

// The number of keys that top lists.
const (
	defaultTop = 20
	maxTop     = 1000
)

// serveTop lists the keys that were denied most, of one policy or of all.
func (a *App) serveTop(r *http.Request) (any, bool, error) {
	query := r.URL.Query()
	n := defaultTop
	if text := query.Get("n"); text != "" {
		parsed, err := strconv.Atoi(text)
		if err != nil || parsed < 1 || parsed > maxTop {
			return nil, false, adminapi.BadInput("n: use a number from 1 to %d", maxTop)
		}
		n = parsed
	}
	registered := a.registered
	if name := query.Get("policy"); query.Has("policy") {
		one, err := a.registeredNamed(name)
		if err != nil {
			return nil, false, err
		}
		registered = registeredPolicies{name: one}
	}
	report := adminapi.TopReport{Keys: []adminapi.TopEntry{}}
	for name, policy := range registered {
		keys, since := policy.counters.Top.List()
		report.Since = max(report.Since, explain.Seconds(since))
		for _, k := range keys {
			report.Keys = append(report.Keys, adminapi.TopEntry{Policy: name, Key: escape.Key(k.Key), Denied: k.Count, Error: k.Error})
		}
	}
	slices.SortFunc(report.Keys, func(a, b adminapi.TopEntry) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Key, b.Key))
	})
	report.Keys = report.Keys[:min(n, len(report.Keys))]
	a.addBans(r, report.Keys)
	return report, false, nil
}

// serveExplain tells what the handlers that a request meets would decide.
func (a *App) serveExplain(r *http.Request) (any, bool, error) {
	var question adminapi.ExplainRequest
	if err := adminapi.ReadQuestion(r, &question); err != nil {
		return nil, false, err
	}
	request, err := explain.NewRequest(r.Context(), &question)
	if err != nil {
		return nil, false, err
	}
	report, err := explain.Explain(a.servers(), request, question.ClientIP, limiterOf)
	if err != nil {
		return nil, false, err
	}
	return report, report.Error != "", nil
}

// Interface guards
var _ caddy.AdminRouter = adminRoutes{}
