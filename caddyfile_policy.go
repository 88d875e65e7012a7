package redisratelimit

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddyfileopt"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// parsePolicy reads a policy block.
func (p *handlerParser) parsePolicy() error {
	args := p.RemainingArgs()
	if len(args) != 1 {
		return p.Errf("policy takes one value, its name, got %d; its options follow in a block", len(args))
	}
	name := args[0]
	if name == "" {
		return p.Err("policy: empty; write its name behind the word policy")
	}
	policy := &Policy{Name: name}
	p.handler.Policies = append(p.handler.Policies, policy)
	own, err := blocks.Each(p.Dispenser, slices.Concat(policyOptions, commonOptions), func(option string) error {
		if option == "name" {
			return p.Err("name: a policy block has its name behind the word policy")
		}
		return p.parsePolicyOption(policy)
	})
	if err != nil {
		return err
	}
	p.policies = append(p.policies, own)
	whole := *policy
	whole.setDefaults(&commonDefaults) // the handler's may follow
	if err := cmp.Or(whole.check(), p.blocks.add(policy)); err != nil {
		return own.Wrap(err)
	}
	return nil
}

func (p *handlerParser) parsePolicyOption(policy *Policy) error {
	option := p.Val()
	if slices.Contains(commonOptions, option) {
		return p.parseCommon(option, &policy.Common)
	}
	if parse := map[string]func(*Policy) error{
		"match": p.parseMatch, "count_if": p.parseCountIf, "cost": p.parseCost, "ban": p.parseBan, "lease": p.parseLease,
		"challenge": p.parseChallenge, "notify": p.parseNotify, "window": p.parseWindow, "wait": p.parseWait,
		"limit": p.parseNumber, "max_concurrent": p.parseNumber, "burst": p.parseNumber, "weight": p.parseNumber,
	}[option]; parse != nil {
		return parse(policy)
	}
	if option == "raw_key" {
		return p.flag(&policy.RawKey)
	}
	if option == "key" {
		if err := p.checkOneKey(); err != nil {
			return err
		}
	}
	value, err := caddyfileopt.Value(p.Dispenser)
	if err != nil {
		return err
	}
	switch option {
	case "reserve":
		policy.Reserve = Reserve(p.reserveOf(policy, value))
	case "node_timeout":
		policy.NodeTimeout, err = caddyfileopt.Duration(p.Dispenser, option, value, limiter.MinNodeTimeout,
			"a duration from 5s to 10m such as 15s")
	case "enforce":
		policy.Enforce, err = caddyfileopt.Percent(p.Dispenser, option, value)
	case "max_delay":
		policy.MaxDelay = new(caddy.Duration)
		*policy.MaxDelay, err = caddyfileopt.Duration(p.Dispenser, option, value, 0, "a duration from 0 such as 500ms")
	default:
		*map[string]*string{
			"name": &policy.Name, "key": &policy.Key, "algorithm": &policy.Algorithm, "on_unread": &policy.OnUnread,
		}[option] = value
	}
	return err
}

// parseCommon reads an option that is given in a policy block, or next to all of them.
func (p *handlerParser) parseCommon(option string, c *Common) error {
	if option == "dry_run" {
		return p.flag(&c.DryRun)
	}
	value, err := caddyfileopt.Value(p.Dispenser)
	if err != nil {
		return err
	}
	switch option {
	case "ipv4_prefix":
		c.IPv4Prefix = new(int)
		*c.IPv4Prefix, err = caddyfileopt.Number(p.Dispenser, option, value, 0, 32)
	case "ipv6_prefix":
		c.IPv6Prefix = new(int)
		*c.IPv6Prefix, err = caddyfileopt.Number(p.Dispenser, option, value, 0, 128)
	case "on_empty_key":
		c.OnEmptyKey = value
	}
	return err
}

// parseNumber reads a number, or a placeholder and its fallback.
func (p *handlerParser) parseNumber(policy *Policy) (err error) {
	numbers := map[string]*int64{
		"limit": &policy.Limit, "max_concurrent": &policy.MaxConcurrent, "burst": &policy.Burst, "weight": &policy.Weight,
	}
	sources := map[string]*string{
		"limit": &policy.LimitFrom, "max_concurrent": &policy.MaxConcurrentFrom, "burst": &policy.BurstFrom, "weight": &policy.WeightFrom,
	}
	option, args := p.Val(), p.RemainingArgs()
	meant := readShortForm(args)
	switch {
	case p.NextBlock(p.Nesting()):
		return p.Errf("%s takes no block", option)
	case option == "limit" && len(args) > 0 && meant.isWhole() && meant.key == "":
		return p.Errf("limit %s: the window has a line of its own; write limit %s and in the next line window %s",
			strings.Join(args, " "), meant.limit, meant.window)
	case option == "weight" && len(args) == 1 && args[0] == rule.TokensOfModel:
		policy.WeightFrom = args[0]
		return nil
	case len(args) == 1:
		*numbers[option], err = p.numberOrSize(policy, option, args[0])
		return err
	case len(args) != 2 && option == "weight":
		return p.Errf("weight takes a number; %s and a number; or a placeholder such as {json.max_tokens} and a number; got %d values",
			rule.TokensOfModel, len(args))
	case len(args) != 2:
		return p.Errf("%s takes a number, or a placeholder and a number, got %d values", option, len(args))
	}
	if _, err := parseNumberFrom(option, args[0]); err != nil {
		return p.WrapErr(err)
	}
	*sources[option] = args[0]
	if mayBeUnlimited(option) && args[1] == rule.WordUnlimited {
		policy.Unlimited = true
		return nil
	}
	*numbers[option], err = p.numberOrSize(policy, option, args[1])
	if err != nil && mayBeUnlimited(option) {
		return p.Errf("%s %s %s: behind the placeholder, use a whole number from 1, or %s", option, args[0], args[1], rule.WordUnlimited)
	}
	return err
}

// parseNumberFrom reads what a number of an option comes from.
func parseNumberFrom(option, text string) (rule.Placeholder, error) {
	if option == "weight" {
		return rule.ParseWeight(text)
	}
	return rule.ParsePlaceholder(option, text)
}

// mayBeUnlimited reports whether the fallback of an option may be the word unlimited.
func mayBeUnlimited(option string) bool { return option == "limit" || option == "max_concurrent" }

// parseCost reads the source of a cost, and the fallback behind it.
func (p *handlerParser) parseCost(policy *Policy) (err error) {
	from, behind := rule.CutCost(p.RemainingArgs())
	if from == "" || len(behind) > 1 || p.NextBlock(p.Nesting()) {
		return p.Errf("cost takes %s alone; or json and paths of numbers in the body, joined without spaces, or %s, or a placeholder, "+
			"and the number that counts if it has none, such as cost json usage.input_tokens+usage.output_tokens 500, "+
			"cost %[2]s 4000, or cost {http.reverse_proxy.header.X-Tokens-Used}", rule.ResponseBytes, rule.TokensOfModel)
	}
	policy.CostFrom = from
	if len(behind) == 1 {
		fallback, err := strconv.ParseUint(behind[0], 10, 63)
		if err != nil {
			return p.Errf("cost %s %s: use a whole number from 0 at the end", from, behind[0])
		}
		policy.Cost = int64(fallback)
	}
	if _, err = rule.ParseCost(policy.CostFrom, policy.Cost); err != nil {
		return p.WrapErr(err)
	}
	return nil
}

// parseBan reads durations, and how many denials are an offense.
func (p *handlerParser) parseBan(policy *Policy) error {
	const form = "one duration or more, each for one more offense, such as ban 30s 5m 1h, or ban 30s 5m after 3"
	args := p.RemainingArgs()
	policy.Ban = new(Ban)
	if at := slices.Index(args, "after"); at >= 0 {
		if len(args) != at+2 {
			return p.Errf("ban: after takes one number, at the end; use %s", form)
		}
		after, err := caddyfileopt.Number(p.Dispenser, "ban: after "+secretfile.Redact(args[at+1]), args[at+1], 1, limiter.MaxBanAfter)
		if err != nil {
			return err
		}
		policy.Ban.After, args = after, args[:at]
	}
	if len(args) == 0 || p.NextBlock(p.Nesting()) {
		return p.Errf("ban takes %s", form)
	}
	for _, text := range args {
		duration, err := caddyfileopt.Duration(p.Dispenser, "ban", text, limiter.MinBan, form+"; durations are from 1s to 365d")
		if err != nil {
			return err
		}
		policy.Ban.Durations = append(policy.Ban.Durations, duration)
	}
	return nil
}

// parseLease reads how long a lease lasts at most.
func (p *handlerParser) parseLease(policy *Policy) (err error) {
	const form = "a duration from 5ms to 1s, how long a lease lasts at most, or none for 1s"
	args := p.RemainingArgs()
	if len(args) > 1 || p.NextBlock(p.Nesting()) {
		return p.Errf("lease takes %s", form)
	}
	policy.Lease = caddy.Duration(limiter.MaxLease)
	if len(args) == 1 {
		policy.Lease, err = caddyfileopt.Duration(p.Dispenser, "lease", args[0], limiter.MinLease, form)
	}
	return err
}

// parseChallenge reads how many passes a key has, and the limit of each.
func (p *handlerParser) parseChallenge(policy *Policy) (err error) {
	args := p.RemainingArgs()
	if len(args) > 2 || p.NextBlock(p.Nesting()) {
		return p.Err("challenge takes how many passes a key has, from 1 to 1000, and the limit of a pass, " +
			"or none for 10 passes with the policy's limit")
	}
	policy.Challenge = new(Challenge)
	if len(args) > 0 {
		policy.Challenge.Passes, err = caddyfileopt.Number(p.Dispenser, "challenge "+secretfile.Redact(args[0]), args[0], 1, rule.MaxPasses)
	}
	if len(args) == 2 && err == nil {
		policy.Challenge.Limit, err = p.wholeNumber("challenge "+args[0], args[1])
	}
	return err
}

// parseWait reads how long a request waits, how many of a key do, and what turns go round by.
func (p *handlerParser) parseWait(policy *Policy) (err error) {
	args := p.RemainingArgs()
	if len(args) == 0 || p.NextBlock(p.Nesting()) {
		return p.Err("wait takes how long a request waits, how many of a key wait on a node, and by what values turns go round, " +
			"such as wait 30s, wait 30s 200, or wait 30s 200 by {http.auth.user.id}")
	}
	policy.Wait = new(Wait)
	if policy.Wait.Longest, err = caddyfileopt.Duration(p.Dispenser, "wait", args[0], minWait, waitBounds); err != nil {
		return err
	}
	longest := args[0]
	if args = args[1:]; len(args) > 0 && args[0] != "by" {
		n, err := strconv.ParseUint(args[0], 10, 31)
		if err != nil && strings.Contains(args[0], "{") {
			return p.Errf("wait: %s stands without by; write wait %s by %[1]s", args[0], longest)
		}
		if err != nil || n < 1 || n > waiting.MostWaiting {
			return p.Errf("wait: %s waiting; use a number from 1 to %d", secretfile.Redact(args[0]), waiting.MostWaiting)
		}
		policy.Wait.Most, args = int(n), args[1:]
	}
	switch {
	case len(args) == 0:
		return nil
	case args[0] == "by" && (len(args) == 1 || len(args) == 2 && args[1] == ""):
		return p.Err("wait: by has no value; write a placeholder such as {http.auth.user.id}")
	case args[0] == "by" && len(args) == 2:
		policy.Wait.By = args[1]
		return nil
	}
	return p.Errf("wait: %s has no meaning there; write wait 30s 200 by {http.auth.user.id}, of which by is one text; "+
		"put quotation marks around one with blanks", secretfile.Redact(args[len(args)-1]))
}

// parseNotify reads percentages of the capacity.
func (p *handlerParser) parseNotify(policy *Policy) error {
	values, err := p.values("percentages of the capacity, such as notify 80% 100%")
	if err != nil {
		return err
	}
	for _, value := range values {
		percent, err := caddyfileopt.Percent(p.Dispenser, "notify", value)
		if err != nil {
			return err
		}
		policy.Notify = append(policy.Notify, *percent)
	}
	return nil
}

// wholeNumber reads a number from 1.
func (p *handlerParser) wholeNumber(option, value string) (int64, error) {
	n, err := strconv.ParseUint(value, 10, 63)
	if err == nil && n >= 1 {
		return int64(n), nil
	}
	if mayBeUnlimited(option) && value == rule.WordUnlimited {
		return 0, p.Errf("%s %s: needs a placeholder for the requests that are limited, "+
			"such as %[1]s {http.vars.plan_limit} %[2]s", option, value)
	}
	if strings.HasPrefix(value, "{") {
		return 0, p.Errf("%s %s: a placeholder needs a number behind it, for when it is empty: %[1]s %[2]s 100, in the block",
			option, rule.ShortNames(value))
	}
	if _, err := rule.ParseSize(value + "B"); err == nil && strings.ContainsAny(value, "KMGTP") {
		return 0, p.Errf("%s %s: use a whole number from 1; of bytes, with cost response_bytes, write %[1]s %[2]sB", option, value)
	}
	if errors.Is(err, strconv.ErrRange) {
		return 0, p.Errf("%s %s: too large; use a whole number from 1 to 2^52", option, value)
	}
	return 0, p.Errf("%s %s: use a whole number from 1", option, value)
}

// flag reads an option that has no value.
func (p *handlerParser) flag(set *bool) error {
	option := p.Val()
	if p.NextArg() || p.NextBlock(p.Nesting()) {
		return p.Errf("%s takes no value", option)
	}
	*set = true
	return nil
}

// values reads an option that has one value or more.
func (p *handlerParser) values(what string) ([]string, error) {
	option := p.Val()
	values := p.RemainingArgs()
	if len(values) == 0 || p.NextBlock(p.Nesting()) {
		return nil, p.Errf("%s takes values: %s", option, what)
	}
	return values, nil
}
