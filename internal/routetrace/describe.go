package routetrace

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/description"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// Describe describes the policy of a rule, with the handler whose rule it is. The place is missing.
func Describe(r *rule.Rule) description.Policy {
	settings := r.Policy.Settings
	p := description.Of(settings)
	p.BurstFrom, p.Unlimited = r.Texts.BurstFrom, r.Numbers.Unlimited
	if p.LimitFrom = r.Texts.LimitFrom; r.Policy.CountsRunning {
		p.LimitFrom, p.MaxConcurrentFrom = "", r.Texts.LimitFrom
	}
	if p.Unlimited {
		p.Limit, p.MaxConcurrent = 0, 0
	}
	prefixes := r.Key.Prefixes()
	p.SetPrefixes(prefixes.IPv4, prefixes.IPv6)
	if r.Challenge.Passes > 0 {
		p.Challenge = new(description.Challenge(r.Challenge))
	}
	if settings.Lease != 0 {
		p.Lease = new(description.Seconds(r.Policy.LongestLease()))
	}
	p.Handlers = append(p.Handlers, DescribeHandler(r))
	return p
}

// DescribeHandler describes the options that are a handler's own, by its rule. The place is missing.
func DescribeHandler(r *rule.Rule) description.Handler {
	h := description.Handler{
		Match: MatchersText(r.Match), Key: r.Texts.Key, RawKey: r.Key.Raw, WeightFrom: r.Texts.WeightFrom, CountIf: countIfText(r),
		Cost: r.Texts.Cost, CostFallback: r.Cost.Fallback, Reserve: r.Reserve.String(), DryRun: r.DryRun,
		Unshown: r.ShowsIETF && !r.DryRun && r.Unit() == limiter.OtherUnits,
	}
	if r.OnEmptyKey != rule.EmptyKeyClientIP {
		h.OnEmptyKey = string(r.OnEmptyKey)
	}
	if r.Numbers.Weight > 1 {
		h.Weight = r.Numbers.Weight
	}
	if r.PassUnread {
		h.OnUnread = "pass"
	}
	if r.Rollout != nil {
		h.Enforce = new(r.Rollout.Fraction().Percent())
	}
	if r.Wait.Longest > 0 {
		h.Wait = &description.Wait{Longest: description.Seconds(r.Wait.Longest), Most: r.Wait.Most, By: r.Texts.WaitBy}
	}
	for _, mark := range r.Notify {
		h.Notify = append(h.Notify, mark.Percent())
	}
	return h
}

// countIfText returns the responses that a rule counts, as in a Caddyfile; empty for all.
func countIfText(r *rule.Rule) string {
	if r.CountIf == nil {
		return ""
	}
	var parts []string
	if codes := r.CountIf.StatusCode; len(codes) > 0 {
		words := []string{"status"}
		for _, code := range codes {
			class := ""
			if code < 10 {
				class = "xx"
			}
			words = append(words, strconv.Itoa(code)+class)
		}
		parts = append(parts, strings.Join(words, " "))
	}
	for _, name := range slices.Sorted(maps.Keys(r.CountIf.Headers)) {
		if values := r.CountIf.Headers[name]; values == nil {
			parts = append(parts, "header !"+name)
		} else {
			parts = append(parts, "header "+name+" "+strings.Join(values, " "))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "any response")
}
