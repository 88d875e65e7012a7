package redisratelimit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// serveBans lists the clients that are banned on any node, of one policy or of all.
func (a *App) serveBans(
	ctx context.Context, question adminapi.BansQuestion, stores *storepool.Stores,
) (report adminapi.BansReport, undecided bool, err error) {
	if question.Policy.Given {
		if _, err := a.registeredNamed(question.Policy.Text); err != nil {
			return report, false, err
		}
	}
	list, complete, err := a.banned(ctx, stores, question.Policy.Text)
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

// maxPeeks is how many keys the store is asked for at a time.
const maxPeeks = 64

// addBans adds which of the keys are banned: by the store, or, once it does not decide, as far as this
// process remembers.
func (a *App) addBans(ctx context.Context, stores *storepool.Stores, keys []adminapi.TopEntry) {
	var failed atomic.Bool
	some, _ := a.decides(ctx, stores)
	failed.Store(!some)
	eachAtOnce(len(keys), func(i int) bool {
		policy := a.registered[keys[i].Policy].policy
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
	report.Unbanned = new(int64(oneIf(lifted)))
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

// readQuota reads which quota a question is about, and a hint for who asks it. Without a key it is the whole policy.
func (a *App) readQuota(question *adminapi.QuotaRequest) (registered registeredPolicy, key *limiter.EncodedKey, hint string, err error) {
	if question.Policy == "" {
		return registered, nil, "", adminapi.BadInput("policy: name one")
	}
	if registered, err = a.registeredNamed(question.Policy); err != nil || !question.Key.Given {
		return registered, nil, "", err
	}
	parsed, err := display.ParseKey(question.Key.Text)
	if err != nil {
		return registered, nil, "", adminapi.BadInput("%v", err)
	}
	meant, hint := a.meant(&registered, parsed)
	return registered, &meant, cmp.Or(hint, starHint(parsed)), nil
}

// meant returns the key that an operator means by a text. Values of the request's body count folded, as in requests' keys.
// Where a policy's keys are addresses, a whole address that is written otherwise in keys, such as an IPv4 address in IPv6
// form, is the one that it counts as. The hint names such a key, and the network that an address counts by, which is named
// only on purpose: it may hold other clients.
func (a *App) meant(registered *registeredPolicy, text string) (key limiter.EncodedKey, hint string) {
	named := limiter.AsEncoded(text)
	client, _, isPass := rule.CutPass(named)
	if isPass {
		text = client.String()
	}
	if folded, stays := a.foldedKey(registered.policy.Name(), text); folded != text {
		counted := limiter.AsEncoded(folded)
		switch shown := display.EscapeKey(counted.String()); {
		case stays:
			return named, "from a request's body this key counts as " + shown
		case isPass:
			return limiter.AsEncoded(folded + strings.TrimPrefix(named.String(), text)), "this key counts as " + shown
		default:
			return counted, "this key counts as " + shown
		}
	}
	counted := registered.identity.Shorten(client.String())
	switch {
	case counted == client.String():
		return named, ""
	case strings.Contains(counted, "/"):
		return named, "clients' addresses are counted by their prefix here: this one's key is " + counted
	case !a.hasAddressKeys(registered.policy.Name()):
		return named, "in a key of clients' addresses this one is " + counted
	}
	return limiter.AsEncoded(counted + strings.TrimPrefix(named.String(), client.String())), "this address counts as " + counted
}

// foldedKey returns the text of a key with the values of the request's body folded, as the first handler of a policy does
// that has such a key. Where another handler of the policy can make the key as it is given, by raw_key or by values of
// another origin, both are keys of the policy: the given one stays, since it can be named in no other way.
func (a *App) foldedKey(policy, text string) (folded string, stays bool) {
	folded = text
	for _, set := range a.rules {
		for i := range set.Rules {
			if set.Rules[i].Policy.Name() != policy {
				continue
			}
			other, same := set.Rules[i].FoldKey(text)
			if stays = stays || same; folded == text {
				folded = other
			}
		}
	}
	return folded, stays
}

// hasAddressKeys reports whether all keys of a policy are addresses.
func (a *App) hasAddressKeys(policy string) (found bool) {
	for _, set := range a.rules {
		for i := range set.Rules {
			switch r := &set.Rules[i]; {
			case r.Policy.Name() != policy:
			case !r.Key.IsAddress():
				return false
			default:
				found = true
			}
		}
	}
	return found
}

// serveState reports the state of a quota.
func (a *App) serveState(
	ctx context.Context, question adminapi.QuotaRequest, stores *storepool.Stores,
) (report adminapi.StateReport, undecided bool, err error) {
	registered, key, hint, err := a.readQuota(&question)
	if err != nil {
		return report, false, err
	}
	if key == nil {
		return report, false, adminapi.BadInput("key: name one; `top` and `explain` show keys")
	}
	client, _, _ := rule.CutPass(*key)
	override, blocked := a.overrideOfKey(registered.policy.Name(), client)
	policy, status := rule.UnderOverride(override, registered.policy)
	checks := registered.quotas(policy, *key, override != nil)
	days := ""
	if registered.identity.dayFrom != "" {
		checks, days = monthsInUse(ctx, stores, checks, policy)
	}
	check := checks[0]
	report = adminapi.StateReport{
		Policy: registered.policy.Name(), Key: display.EscapeKey(key.String()),
		Hint:     cmp.Or(hint, blocked, days),
		Override: routetrace.Override(override), DryRun: a.enforcesNowhere(registered.policy.Name(), *key),
	}
	if units, lasts := stores.Leased(registered.policy.Name(), *key); units > 0 {
		report.Leased = &adminapi.LeasedReport{Units: units, Lasts: routetrace.Seconds(lasts)}
	}
	if registered.policy.Settings.Waits {
		report.Waiting = routetrace.Waiting(stores.Queue.OfKey(registered.policy, *key))
	}
	source, err := stores.PeekDecided(ctx, &check)
	if status == rule.Counts {
		report.Passes = passesInUse(ctx, stores, checks[1:], err != nil)
	}
	if err == nil || stores.HasLocalState(check.Policy, *key) {
		if status == rule.Blocked {
			source, check.Result = rule.SourceOverride, rule.BlockResult(override, a.overrides.Now())
		}
		report.Source = string(source)
		if registered.identity.unlimited && (override == nil || status == rule.Exempted) {
			report.Hint = cmp.Or(report.Hint, "each request brings its limit along in "+registered.identity.limitFrom+
				", or is unlimited; "+
				"explain shows what one of them gets")
		} else {
			report.QuotaReport = new(routetrace.Quota(check.Policy, check.Result))
		}
	}
	if stores.Redis != nil && (err == nil || redis.Answered(err)) {
		if registered.policy.CountsRunning {
			report.Node = stores.Redis.Store.NodeName()
		}
		err = cmp.Or(err, addStored(ctx, stores.Redis, &report, check.Policy, *key))
	}
	if err != nil {
		report.Error = adminapi.UnavailableText(err)
	}
	return report, err != nil, nil
}

// monthsInUse returns, of the checks of a key whose months begin on each day, the one from which most was taken: a request has the
// day, and an operator's question has no request. Without any it is the policy's own. The hint names the day, and others
// that were taken from, as after a change of the client's day.
func monthsInUse(
	ctx context.Context, stores *storepool.Stores, checks []limiter.Check, own *limiter.Policy,
) (used []limiter.Check, hint string) {
	var failed atomic.Bool
	eachAtOnce(len(checks), func(i int) bool {
		if !failed.Load() {
			if _, err := stores.Peek(ctx, &checks[i]); err == nil {
				return true
			}
			failed.Store(true)
		}
		stores.PeekLocal(&checks[i])
		return true
	})
	slices.SortStableFunc(checks, func(a, b limiter.Check) int { return cmp.Compare(a.Result.Remaining, b.Result.Remaining) })
	var days []string
	for i := range checks {
		if checks[i].Result.ResetAfter > 0 {
			_, day, _ := strings.Cut(checks[i].Policy.Settings.Calendar, startMark)
			days = append(days, cmp.Or(day, "1"))
		}
	}
	if len(days) == 0 {
		return []limiter.Check{{Policy: own, Key: checks[0].Key}}, ""
	}
	hint = "the months of this key begin on day " + days[0]
	if len(days) > 1 {
		hint += "; it has taken units in those from day " + strings.Join(days[1:], ", ") + " too"
	}
	return checks[:1], hint
}

// addStored adds the keys in Redis that hold a quota.
func addStored(
	ctx context.Context, remote *storepool.Redis, report *adminapi.StateReport, p *limiter.Policy, key limiter.EncodedKey,
) error {
	stored, err := remote.Store.Inspect(ctx, p, key)
	for _, s := range stored {
		ttl := routetrace.Seconds(s.TTL)
		if s.TTL < 0 {
			ttl = -1 // it has none
		}
		report.Keys = append(report.Keys, adminapi.RedisKeyReport{Name: display.EscapeKey(s.Name), Type: s.Type, TTL: ttl, Value: s.Value})
	}
	return err
}

// serveReset forgets a quota, or all of a policy.
func (a *App) serveReset(
	ctx context.Context, question adminapi.QuotaRequest, stores *storepool.Stores,
) (report adminapi.ResetReport, undecided bool, err error) {
	registered, key, hint, err := a.readQuota(&question)
	if err != nil {
		return report, false, err
	}
	report.Hint = hint
	if key != nil {
		report.Hint = joinHints(hint, a.blockHint(registered.policy.Name(), *key))
	}
	var found failover.ResetCount
	if key != nil {
		found, err = resetQuotas(ctx, stores, registered.quotas(registered.policy, *key, true))
	} else {
		found, err = resetAll(ctx, stores, registered.policy)
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

// resetAll forgets all quotas of a policy. If no part of Redis decides, they are forgotten on this node alone.
func resetAll(ctx context.Context, stores *storepool.Stores, p *limiter.Policy) (found failover.ResetCount, err error) {
	some, undecided := stores.ProbeEach(ctx, []*limiter.Policy{p})
	if some {
		found, err = stores.ResetAll(ctx, p.Name())
	} else {
		found.Here = stores.ResetAllHere(p.Name())
	}
	return found, cmp.Or(err, undecided)
}
