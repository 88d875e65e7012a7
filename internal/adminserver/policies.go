package adminserver

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// servePolicies lists the policies, and tells how the store is.
func (s *Server) servePolicies(
	ctx context.Context, _ adminapi.NoQuestion, stores *storepool.Stores,
) (adminapi.PoliciesReport, bool, error) {
	report := adminapi.PoliciesReport{Store: s.storeReport(ctx, stores), Policies: []adminapi.PolicyReport{}}
	report.Version, report.Caddy = adminapi.ModuleVersions()
	described, waits := s.Describe(), s.Process.pool.Waits()
	for _, name := range slices.Sorted(maps.Keys(described)) {
		registered := s.Policies[name]
		counts := registered.Counters.Counts()
		p := adminapi.PolicyReport{PolicyDescription: *described[name], SinceStart: countsReport(&counts)}
		if registered.Policy.CountsRunning {
			p.Running = new(stores.Running(name))
		}
		if registered.Policy.Settings.Waits {
			p.Waiting = routetrace.Waiting(waits[name])
		}
		if p.Set("count") != "" {
			p.SinceStart.Looked = &counts.Looked
		}
		if p.Set("reserve") != "" {
			p.SinceStart.ReserveDenied = &counts.ReserveDenied
		}
		if s.looksFirst(name) {
			p.Looking = new(stores.Looking(registered.Policy))
		}
		if p.Set("count_if") != "" {
			p.SinceStart.CountIf = &adminapi.CountIfReport{Responses: counts.Matched + counts.NotMatched, Matched: counts.Matched}
		}
		all, clients := s.Stores.Overrides.OfPolicy(name)
		p.Override, p.ClientOverrides = routetrace.Override(all), clients
		report.Policies = append(report.Policies, p)
	}
	return report, false, nil
}

// looksFirst reports whether requests of a policy look before their response is known.
func (s *Server) looksFirst(policy string) bool {
	return slices.ContainsFunc(s.Rules, func(s *rule.Set) bool {
		return slices.ContainsFunc(s.Rules, func(r rule.Rule) bool {
			most, _ := r.LooksFirst()
			return most > 0 && r.Policy.Name() == policy
		})
	})
}

// countsReport reports what a policy has met.
func countsReport(c *storepool.Counts) adminapi.CountsReport {
	return adminapi.CountsReport{
		Since: c.Since.UTC(), Met: c.Met(), Denied: c.Decisions[limiter.OutcomeDenied], WouldBeDenied: c.Decisions[limiter.OutcomeDryDenied],
		DeniedByOther: c.DeniedByOthers, FailedOpen: c.Decisions[limiter.OutcomeFailedOpen], FailedClosed: c.Decisions[limiter.OutcomeFailedClosed],
		Counted: c.Counted(),
	}
}

// storeReport tells how the store is.
func (s *Server) storeReport(ctx context.Context, stores *storepool.Stores) adminapi.StoreReport {
	report := s.storeFacts(stores)
	if stores.Redis != nil {
		if report.KeyPrefix == limiter.DefaultKeyPrefix {
			report.Advice = limiter.SharedAdvice
		}
		s.probe(ctx, stores, &report)
	}
	return report
}

// storeFacts tells what is known of the store without asking it. Its health is that of the store in this process.
func (s *Server) storeFacts(stores *storepool.Stores) adminapi.StoreReport {
	report := adminapi.StoreReport{Kind: "memory", Healthy: true, MemoryKeys: s.Stores.Memory.Store.Len(), MaxKeys: s.MaxKeys}
	if stores.Redis == nil {
		return report
	}
	options := stores.Options
	report.Kind, report.Mode, report.Addresses = "redis", string(cmp.Or(options.Client.Mode, dial.Standalone)), options.Client.Addresses
	report.Database, report.KeyPrefix, report.HashKeys = options.Client.DB, options.Naming.Prefix, options.Naming.Secret != ""
	report.FailMode, report.Timeout = string(s.FailMode), routetrace.Seconds(s.Timeout)
	report.Breaker = "closed"
	if failing, probe := stores.Failing(); failing {
		report.Breaker, report.NextProbe = "open", routetrace.Seconds(probe)
	}
	return report
}

// probe has Redis decide by the configured policies for a reserved key: a PING would be answered where decisions are not.
func (s *Server) probe(ctx context.Context, stores *storepool.Stores, report *adminapi.StoreReport) {
	began := time.Now()
	if _, err := s.decides(ctx, stores); err != nil {
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

// decides returns whether any part of Redis decides by the configured policies now, and why another part does not. Without
// Redis all is well.
func (s *Server) decides(ctx context.Context, stores *storepool.Stores) (some bool, err error) {
	return stores.ProbeEach(ctx, s.policies())
}

// policies are those of the configuration.
func (s *Server) policies() []*limiter.Policy {
	policies := make([]*limiter.Policy, 0, len(s.Policies))
	for _, registered := range s.Policies {
		policies = append(policies, registered.Policy)
	}
	return policies
}
