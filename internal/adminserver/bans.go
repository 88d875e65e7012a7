package adminserver

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// serveBans lists the clients that are banned on any node, of one policy or of all.
func (s *Server) serveBans(
	ctx context.Context, question adminapi.BansQuestion, stores *storepool.Stores,
) (report adminapi.BansReport, undecided bool, err error) {
	if question.Policy.Given {
		if _, err := s.registeredNamed(question.Policy.Text); err != nil {
			return report, false, err
		}
	}
	list, complete, err := s.banned(ctx, stores, question.Policy.Text)
	report = adminapi.BansReport{Complete: complete, Bans: []adminapi.BanEntry{}}
	if err != nil {
		report.Error = adminapi.UnavailableText(err)
	}
	for _, b := range list {
		report.Bans = append(report.Bans, adminapi.BanEntry{
			Policy: b.Policy, Key: display.EscapeKey(b.Key.String()),
			Banned: routetrace.Seconds(b.Left), Offenses: b.Offenses,
		})
	}
	return report, err != nil, nil
}

// banned lists the banned of the policy of that name, or of all policies. Where no part of Redis decides there is none:
// only Redis has those of all nodes.
func (s *Server) banned(ctx context.Context, stores *storepool.Stores, policy string) (list []limiter.Banned, complete bool, err error) {
	some, undecided := s.decides(ctx, stores)
	if some {
		list, complete, err = stores.Banned(ctx, policy)
	}
	if err == nil {
		err = undecided
	}
	return list, complete && err == nil, err
}

// addBans adds which of the keys are banned: by the store, or, once it does not decide, as far as this
// process remembers.
func (s *Server) addBans(ctx context.Context, stores *storepool.Stores, keys []adminapi.TopEntry) {
	var failed atomic.Bool
	some, _ := s.decides(ctx, stores)
	failed.Store(!some)
	eachAtOnce(len(keys), func(i int) bool {
		policy := s.Policies[keys[i].Policy].Policy
		parsed, err := display.ParseKey(keys[i].Key)
		if policy == nil || !policy.Bans() || err != nil {
			return true
		}
		check := limiter.Check{Policy: policy, Key: limiter.AsEncoded(parsed)}
		if failed.Load() {
			stores.PeekLocal(&check)
		} else if _, err := stores.Peek(ctx, &check); err != nil {
			failed.Store(true)
		}
		keys[i].Banned = routetrace.Seconds(check.Result.BanLeft)
		return true // those that are left are looked up here
	})
}

// unban lifts the ban of a key, or with nil those of all keys of a policy, and reports how many there were. While Redis
// does not decide it lifts those that this node remembers.
func unban(
	ctx context.Context, stores *storepool.Stores, p *limiter.Policy, key *limiter.EncodedKey,
	report *adminapi.OverrideReport,
) error {
	if !p.Bans() {
		return adminapi.BadInput("unban: policy %q has no option ban; 'remove' ends an override, 'reset' deletes a count", p.Name())
	}
	if key == nil {
		return unbanAll(ctx, stores, p, report)
	}
	lifted, err := false, stores.ProbeKey(ctx, p, *key)
	if err == nil {
		if lifted, err = stores.Unban(ctx, p, *key); lacksRight(err) {
			return err
		}
	}
	if errors.Is(err, limiter.ErrUndecided) {
		lifted = stores.UnbanHere(p, *key)
		holdsHere(report, err)
		err = nil
	}
	report.Unbanned = new(howMany(lifted))
	return err
}

// lacksRight reports whether a Redis that decides refuses a command because its user lacks a right. A ban that this leaves in
// Redis is in force on all nodes, so that to lift what one node remembers of it would lift nothing.
func lacksRight(err error) bool { return limiter.Kind(err) == "auth" && redis.Answered(err) }

// unbanAll lifts the bans of all keys of a policy, as unban does.
func unbanAll(ctx context.Context, stores *storepool.Stores, p *limiter.Policy, report *adminapi.OverrideReport) error {
	some, undecided := stores.ProbeEach(ctx, []*limiter.Policy{p})
	lifted, err := int64(0), error(nil)
	if some {
		if lifted, err = stores.UnbanAll(ctx, p.Name()); lacksRight(err) { // it has a budget of its own
			return err
		}
	}
	if err = cmp.Or(err, undecided); lifted == 0 && errors.Is(err, limiter.ErrUndecided) {
		lifted = stores.UnbanAllHere(p.Name())
		holdsHere(report, err)
		err = nil
	}
	report.Unbanned = &lifted
	return err
}
