package redisratelimit

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// registeredNamed is the policy of a name.
func (a *App) registeredNamed(name string) (registeredPolicy, error) {
	registered, found := a.registered[name]
	if !found {
		return registered, adminapi.Absent("policy %q: the running configuration has none of this name; %s", name, a.registered.names())
	}
	return registered, nil
}

// servers are those of the running configuration.
func (a *App) servers() map[string]*caddyhttp.Server {
	module, _ := a.ctx.AppIfConfigured("http") // nil where there is none
	if app, ok := module.(*caddyhttp.App); ok {
		return app.Servers
	}
	return nil
}

// servePolicies lists the policies, and tells how the store is.
func (a *App) servePolicies(
	ctx context.Context, _ adminapi.NoQuestion, stores *storepool.Stores,
) (adminapi.PoliciesReport, bool, error) {
	report := adminapi.PoliciesReport{Store: a.storeReport(ctx, stores), Policies: []adminapi.PolicyReport{}}
	report.Version, report.Caddy = adminapi.ModuleVersions()
	described, waits := a.describedPolicies(), pool.Waits()
	for _, name := range slices.Sorted(maps.Keys(described)) {
		registered := a.registered[name]
		counts := registered.counters.Counts()
		p := adminapi.PolicyReport{Policy: *described[name], SinceStart: countsReport(&counts)}
		if a.opened.Options == nil {
			p.Lease = nil // which it has without Redis
		}
		if registered.policy.CountsRunning {
			p.Running = new(stores.Running(name))
		}
		if registered.policy.Settings.Waits {
			p.Waiting = routetrace.Waiting(waits[name])
		}
		if p.Set("count") != "" {
			p.SinceStart.Looked = &counts.Looked
		}
		if p.Set("reserve") != "" {
			p.SinceStart.ReserveDenied = &counts.ReserveDenied
		}
		if a.looksFirst(name) {
			p.Looking = new(stores.Looking(registered.policy))
		}
		if p.Set("count_if") != "" {
			p.SinceStart.CountIf = &adminapi.CountIfReport{Responses: counts.Matched + counts.NotMatched, Matched: counts.Matched}
		}
		all, clients := a.overrides.OfPolicy(name)
		p.Override, p.ClientOverrides = routetrace.Override(all), clients
		report.Policies = append(report.Policies, p)
	}
	return report, false, nil
}

// looksFirst reports whether requests of a policy look before their response is known.
func (a *App) looksFirst(policy string) bool {
	return slices.ContainsFunc(a.rules, func(s *rule.Set) bool {
		return slices.ContainsFunc(s.Rules, func(r rule.Rule) bool {
			most, _ := r.LooksFirst()
			return most > 0 && r.Policy.Name() == policy
		})
	})
}

// countsReport reports what a policy has met.
func countsReport(c *storepool.Counts) adminapi.CountsReport {
	return adminapi.CountsReport{
		Since: c.Since.UTC(), Met: c.Met(), Denied: c.Decisions[rule.Denied], WouldBeDenied: c.Decisions[rule.DryDenied],
		DeniedByOther: c.DeniedByOthers, FailedOpen: c.Decisions[rule.FailedOpen], FailedClosed: c.Decisions[rule.FailedClosed],
		Counted: c.Counted(),
	}
}

// storeReport tells how the store is.
func (a *App) storeReport(ctx context.Context, stores *storepool.Stores) adminapi.StoreReport {
	report := a.storeFacts(stores)
	if stores.Redis != nil {
		if report.KeyPrefix == limiter.DefaultKeyPrefix {
			report.Advice = limiter.SharedAdvice
		}
		a.probe(ctx, stores, &report)
	}
	return report
}

// storeFacts tells what is known of the store without asking it. Its health is that of the store in this process.
func (a *App) storeFacts(stores *storepool.Stores) adminapi.StoreReport {
	report := adminapi.StoreReport{Kind: "memory", Healthy: true, MemoryKeys: a.opened.Memory.Store.Len(), MaxKeys: a.maxKeys()}
	if stores.Redis == nil {
		return report
	}
	options := stores.Options
	report.Kind, report.Mode, report.Addresses = "redis", string(cmp.Or(options.Client.Mode, dial.Standalone)), options.Client.Addresses
	report.Database, report.KeyPrefix, report.HashKeys = options.Client.DB, options.Naming.Prefix, options.Naming.Secret != ""
	report.FailMode, report.Timeout = string(a.FailMode), routetrace.Seconds(time.Duration(a.Timeout))
	report.Breaker = "closed"
	if failing, probe := stores.Failing(); failing {
		report.Breaker, report.NextProbe = "open", routetrace.Seconds(probe)
	}
	return report
}

// decides returns whether any part of Redis decides by the configured policies now, and why another part does not. Without
// Redis all is well.
func (a *App) decides(ctx context.Context, stores *storepool.Stores) (some bool, err error) {
	return stores.ProbeEach(ctx, a.policies())
}

// policies are those of the configuration.
func (a *App) policies() []*limiter.Policy {
	policies := make([]*limiter.Policy, 0, len(a.registered))
	for _, registered := range a.registered {
		policies = append(policies, registered.policy)
	}
	return policies
}

// banned lists the banned of the policy of that name, or of all policies. Where no part of Redis decides there is none:
// only Redis has those of all nodes.
func (a *App) banned(ctx context.Context, stores *storepool.Stores, policy string) (list []limiter.Banned, complete bool, err error) {
	some, undecided := a.decides(ctx, stores)
	if some {
		list, complete, err = stores.Banned(ctx, policy)
	}
	if err == nil {
		err = undecided
	}
	return list, complete && err == nil, err
}

// probe has Redis decide by the configured policies for a reserved key: a PING would be answered where decisions are not.
func (a *App) probe(ctx context.Context, stores *storepool.Stores, report *adminapi.StoreReport) {
	began := time.Now()
	if _, err := a.decides(ctx, stores); err != nil {
		report.Healthy, report.Error = false, adminapi.UnavailableText(err)
		if since := stores.Redis.FailingSince(); !since.IsZero() {
			report.FailingSince = new(since.UTC())
		}
		return
	}
	report.Healthy, report.RoundTrip = true, routetrace.Seconds(time.Since(began))
	if since := stores.Redis.DecidingSince(); !since.IsZero() {
		report.DecidingSince = new(since.UTC())
	}
}

// serveExplain tells what the handlers that a request meets would decide.
func (a *App) serveExplain(
	ctx context.Context, question adminapi.ExplainRequest, _ *storepool.Stores,
) (answer adminapi.ExplainReport, undecided bool, err error) {
	request, err := routetrace.NewRequest(ctx, &question)
	if err != nil {
		return answer, false, err
	}
	report, err := routetrace.Explain(a.servers(), request, question.ClientIP)
	if err != nil {
		return answer, false, err
	}
	return *report, report.Error != "", nil
}

// quotas returns checks of a key's quota, and of those of its passes. That of a pass stands alone. If a placeholder has the day
// on which a client's months begin, they are the quotas of all days.
func (r *registeredPolicy) quotas(p *limiter.Policy, key limiter.EncodedKey, overridden bool) (checks []limiter.Check) {
	if r.identity.dayFrom != "" {
		for _, months := range r.variants.EachDay(p) {
			checks = append(checks, limiter.Check{Policy: months, Key: key})
		}
		return checks
	}
	c := r.identity.challenge
	client, number, isPass := rule.CutPass(key)
	checks = []limiter.Check{{Policy: p, Key: client}}
	if isPass {
		c.Admit(&checks[0], number, r.variants, overridden)
		return checks
	}
	for n := range c.Passes {
		check := checks[0]
		c.Admit(&check, strconv.Itoa(n), r.variants, overridden)
		checks = append(checks, check)
	}
	return checks
}

// passesInUse peeks at the quotas of passes, many at a time, and reports those that were taken from. If Redis does not
// decide, the quotas are those of this node.
func passesInUse(ctx context.Context, stores *storepool.Stores, passes []limiter.Check, undecided bool) (reports []adminapi.PassReport) {
	eachAtOnce(len(passes), func(i int) bool {
		if undecided {
			stores.PeekLocal(&passes[i])
			return true
		}
		_, err := stores.Peek(ctx, &passes[i])
		return err == nil
	})
	for i := range passes {
		if c := &passes[i]; c.Result.ResetAfter > 0 {
			reports = append(reports, adminapi.PassReport{Key: display.EscapeKey(c.Key.String()), QuotaReport: routetrace.Quota(c.Policy, c.Result)})
		}
	}
	return reports
}

// resetQuotas forgets quotas, many at a time, and returns how many there were. Those that Redis does not decide are forgotten
// on this node alone.
func resetQuotas(ctx context.Context, stores *storepool.Stores, checks []limiter.Check) (total failover.ResetCount, err error) {
	var mu sync.Mutex
	eachAtOnce(len(checks), func(i int) bool {
		found, failed := resetQuota(ctx, stores, checks[i].Policy, checks[i].Key)
		mu.Lock()
		defer mu.Unlock()
		total.Shared, total.Here, err = total.Shared+found.Shared, total.Here+found.Here, cmp.Or(err, failed)
		return failed == nil
	})
	return total, err
}

// resetQuota forgets a quota.
func resetQuota(
	ctx context.Context, stores *storepool.Stores, p *limiter.Policy, key limiter.EncodedKey,
) (found failover.ResetCount, err error) {
	if undecided := stores.ProbeKey(ctx, p, key); undecided != nil {
		return failover.ResetCount{Here: stores.ResetHere(p, key)}, undecided
	}
	return stores.Reset(ctx, p, key)
}

// eachAtOnce calls a function for each index, for at most maxPeeks at a time, until it fails.
func eachAtOnce(n int, call func(i int) (ok bool)) {
	var calls sync.WaitGroup
	var failed atomic.Bool
	slots := make(chan struct{}, maxPeeks)
	for i := range n {
		slots <- struct{}{}
		if failed.Load() {
			break
		}
		calls.Go(func() {
			defer func() { <-slots }()
			if !call(i) {
				failed.Store(true)
			}
		})
	}
	calls.Wait()
}
