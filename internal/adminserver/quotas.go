package adminserver

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/failover"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// maxPeeks is how many keys the store is asked for at a time.
const maxPeeks = 64

// readQuota reads which quota a question is about, and a hint for who asks it. Without a key it is the whole policy.
func (s *Server) readQuota(question *adminapi.QuotaRequest) (registered options.Registered, key *limiter.EncodedKey, hint string, err error) {
	if question.Policy == "" {
		return registered, nil, "", adminapi.BadInput("policy: name one")
	}
	if registered, err = s.registeredNamed(question.Policy); err != nil || !question.Key.Given {
		return registered, nil, "", err
	}
	parsed, err := display.ParseKey(question.Key.Text)
	if err != nil {
		return registered, nil, "", adminapi.BadInput("%v", err)
	}
	meant, hint := s.meant(&registered, parsed)
	return registered, &meant, cmp.Or(hint, starHint(parsed)), nil
}

// meant returns the key that an operator means by a text. Values of the request's body count folded, as in requests' keys.
// Where a policy's keys are addresses, a whole address that is written otherwise in keys, such as an IPv4 address in IPv6
// form, is the one that it counts as. The hint names such a key, and the network that an address counts by, which is named
// only on purpose: it may hold other clients.
func (s *Server) meant(registered *options.Registered, text string) (key limiter.EncodedKey, hint string) {
	named := limiter.AsEncoded(text)
	client, _, isPass := rule.CutPass(named)
	if isPass {
		text = client.String()
	}
	if folded, stays := s.foldedKey(registered.Policy.Name(), text); folded != text {
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
	counted := registered.Identity.Shorten(client.String())
	switch {
	case counted == client.String():
		return named, ""
	case strings.Contains(counted, "/"):
		return named, "clients' addresses are counted by their prefix here: this one's key is " + counted
	case !s.hasAddressKeys(registered.Policy.Name()):
		return named, "in a key of clients' addresses this one is " + counted
	}
	return limiter.AsEncoded(counted + strings.TrimPrefix(named.String(), client.String())), "this address counts as " + counted
}

// foldedKey returns the text of a key with the values of the request's body folded, as the first handler of a policy does
// that has such a key. Where another handler of the policy can make the key as it is given, by raw_key or by values of
// another origin, both are keys of the policy: the given one stays, since it can be named in no other way.
func (s *Server) foldedKey(policy, text string) (folded string, stays bool) {
	folded = text
	for _, set := range s.Rules {
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
func (s *Server) hasAddressKeys(policy string) (found bool) {
	for _, set := range s.Rules {
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

// enforcesNowhere reports whether a policy is a dry run for a key in all its handlers; false if it has no handler.
func (s *Server) enforcesNowhere(policy string, key limiter.EncodedKey) (pretended bool) {
	for _, set := range s.Rules {
		for i := range set.Rules {
			switch r := &set.Rules[i]; {
			case r.Policy.Name() != policy:
			case r.Enforces(key):
				return false
			default:
				pretended = true
			}
		}
	}
	return pretended
}

// serveState reports the state of a quota.
func (s *Server) serveState(
	ctx context.Context, question adminapi.QuotaRequest, stores *storepool.Stores,
) (report adminapi.StateReport, undecided bool, err error) {
	registered, key, hint, err := s.readQuota(&question)
	if err != nil {
		return report, false, err
	}
	if key == nil {
		return report, false, adminapi.BadInput("key: name one; `top` and `explain` show keys")
	}
	client, _, _ := rule.CutPass(*key)
	override, blocked := s.overrideOfKey(registered.Policy.Name(), client)
	policy, status := rule.UnderOverride(override, registered.Policy)
	checks := quotas(&registered, policy, *key, override != nil)
	days := ""
	if registered.Identity.DayFrom != "" {
		checks, days = monthsInUse(ctx, stores, checks, policy)
	}
	check := checks[0]
	report = adminapi.StateReport{
		Policy: registered.Policy.Name(), Key: display.EscapeKey(key.String()),
		Hint:     cmp.Or(hint, blocked, days),
		Override: routetrace.Override(override), DryRun: s.enforcesNowhere(registered.Policy.Name(), *key),
	}
	if units, lasts := stores.Leased(registered.Policy.Name(), *key); units > 0 {
		report.Leased = &adminapi.LeasedReport{Units: units, Lasts: routetrace.Seconds(lasts)}
	}
	if registered.Policy.Settings.Waits {
		report.Waiting = routetrace.Waiting(stores.Queue.OfKey(registered.Policy, *key))
	}
	source, err := stores.PeekDecided(ctx, &check)
	if status == rule.Counts {
		report.Passes = passesInUse(ctx, stores, checks[1:], err != nil)
	}
	if err == nil || stores.HasLocalState(check.Policy, *key) {
		if status == rule.Blocked {
			source, check.Result = limiter.SourceOverride, rule.BlockResult(override, s.Stores.Overrides.Now())
		}
		report.Source = string(source)
		if registered.Identity.Unlimited && (override == nil || status == rule.Exempted) {
			report.Hint = cmp.Or(report.Hint, "each request brings its limit along in "+registered.Identity.LimitFrom+
				", or is unlimited; "+
				"explain shows what one of them gets")
		} else {
			report.QuotaReport = new(routetrace.Quota(check.Policy, check.Result))
		}
	}
	if stores.Redis != nil && (err == nil || redis.Answered(err)) {
		if registered.Policy.CountsRunning {
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
			_, day, _ := strings.Cut(checks[i].Policy.Settings.Calendar, "@") // month@15
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
func (s *Server) serveReset(
	ctx context.Context, question adminapi.QuotaRequest, stores *storepool.Stores,
) (report adminapi.ResetReport, undecided bool, err error) {
	registered, key, hint, err := s.readQuota(&question)
	if err != nil {
		return report, false, err
	}
	report.Hint = hint
	if key != nil {
		report.Hint = joinHints(hint, s.blockHint(registered.Policy.Name(), *key))
	}
	var found failover.ResetCount
	if key != nil {
		found, err = resetQuotas(ctx, stores, quotas(&registered, registered.Policy, *key, true))
	} else {
		found, err = resetAll(ctx, stores, registered.Policy)
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

// quotas returns checks of a key's quota, and of those of its passes. That of a pass stands alone. If a placeholder has the day
// on which a client's months begin, they are the quotas of all days.
func quotas(r *options.Registered, p *limiter.Policy, key limiter.EncodedKey, overridden bool) (checks []limiter.Check) {
	if r.Identity.DayFrom != "" {
		for _, months := range r.Variants.EachDay(p) {
			checks = append(checks, limiter.Check{Policy: months, Key: key})
		}
		return checks
	}
	c := r.Identity.Challenge
	client, number, isPass := rule.CutPass(key)
	checks = []limiter.Check{{Policy: p, Key: client}}
	if isPass {
		c.Admit(&checks[0], number, r.Variants, overridden)
		return checks
	}
	for n := range c.Passes {
		check := checks[0]
		c.Admit(&check, strconv.Itoa(n), r.Variants, overridden)
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
