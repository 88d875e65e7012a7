package redisratelimit

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// parsePolicy reads a policy block.
func (p *handlerParser) parsePolicy() error {
	args := p.RemainingArgs()
	if len(args) != 1 {
		return p.Errf("policy takes one value, its name, got %d; its options follow in a block", len(args))
	}
	name := args[0]
	policy, own := &Policy{Name: name}, places{"": *p.Dispenser}
	p.handler.Policies = append(p.handler.Policies, policy)
	p.policies = append(p.policies, own)
	for nesting := p.Nesting(); p.NextBlock(nesting); {
		option := p.Val()
		switch {
		case option == "name":
			return p.Err("name: a policy block has its name behind the word policy")
		case option != "dry_run" && !slices.Contains(policyOptions, option):
			return unknownOption(p.Dispenser, option, append(policyOptions[1:len(policyOptions):len(policyOptions)], "dry_run"))
		case !own.note(p.Dispenser, option):
			return p.Errf("%s stands in policy %s twice; leave one out", option, name)
		}
		if err := p.parsePolicyOption(policy); err != nil {
			return err
		}
	}
	whole := *policy
	whole.setDefaults()
	if err := whole.check(prefixes{}); err != nil {
		return own.wrap(err)
	}
	if err := p.handler.checkRepeated(); err != nil {
		return own.wrap(err)
	}
	return nil
}

func (p *handlerParser) parsePolicyOption(policy *Policy) error {
	option := p.Val()
	switch option {
	case "dry_run":
		return p.flag(&policy.DryRun)
	case "match":
		return p.parseMatch(policy)
	case "count_if":
		return p.parseCountIf(policy)
	case "charge":
		return p.parseCharge(policy)
	case "limit", "burst", "weight":
		return p.parseNumber(policy, option)
	}
	value, err := oneValue(p.Dispenser)
	if err != nil {
		return err
	}
	switch option {
	case "name":
		policy.Name = value
	case "key":
		policy.Key = value
	case "algorithm":
		policy.Algorithm = value
	case "window":
		policy.Window, err = p.window(value)
	case "max_delay":
		policy.MaxDelay = new(caddy.Duration)
		*policy.MaxDelay, err = parseDuration(p.Dispenser, option, value, 0, "a duration from 0 such as 500ms")
	}
	return err
}

// parseNumber reads a number, or a placeholder and the number that counts where it has none.
func (p *handlerParser) parseNumber(policy *Policy, option string) (err error) {
	numbers := map[string]*int64{"limit": &policy.Limit, "burst": &policy.Burst, "weight": &policy.Weight}
	sources := map[string]*string{"limit": &policy.LimitFrom, "burst": &policy.BurstFrom, "weight": &policy.WeightFrom}
	args := p.RemainingArgs()
	switch {
	case p.NextBlock(p.Nesting()):
		return p.Errf("%s takes no block", option)
	case len(args) == 1:
		*numbers[option], err = p.wholeNumber(option, args[0])
		return err
	case len(args) != 2:
		return p.Errf("%s takes a number, or a placeholder and a number, got %d values", option, len(args))
	}
	if _, err := parseSource(option, args[0]); err != nil {
		return p.WrapErr(err)
	}
	*sources[option] = args[0]
	*numbers[option], err = p.wholeNumber(option, args[1])
	return err
}

// parseCharge reads what is charged after the response: its length, or a placeholder and the number
// that counts where it has none.
func (p *handlerParser) parseCharge(policy *Policy) error {
	args := p.RemainingArgs()
	bytes := len(args) == 1 && args[0] == chargeResponseBytes
	placeholder := len(args) == 2 && strings.Trim(args[0], "{}") != chargeResponseBytes
	if (!bytes && !placeholder) || p.NextBlock(p.Nesting()) {
		return p.Errf("charge takes %s alone, or a placeholder and the number that counts where it has none, such as charge {http.reverse_proxy.header.X-Tokens-Used} 1", chargeResponseBytes)
	}
	policy.ChargeFrom = args[0]
	if bytes {
		return nil
	}
	fallback, err := strconv.ParseUint(args[1], 10, 63)
	if err != nil {
		return p.Errf("charge %s %s: use a whole number from 0 behind the placeholder", args[0], args[1])
	}
	policy.Charge = int64(fallback)
	if _, err := policy.parseCharge(); err != nil {
		return p.WrapErr(err)
	}
	return nil
}

// wholeNumber reads a number from 1.
func (p *handlerParser) wholeNumber(option, value string) (int64, error) {
	n, err := strconv.ParseUint(value, 10, 63)
	if err == nil && n >= 1 {
		return int64(n), nil
	}
	if strings.HasPrefix(value, "{") {
		return 0, p.Errf("%s %s: a placeholder needs a number behind it, for when it is empty: %[1]s %[2]s 100, in the block", option, value)
	}
	return 0, p.Errf("%s %s: use a whole number from 1", option, value)
}

// window reads the length of a window. A policy knows its own bounds.
func (p *handlerParser) window(value string) (caddy.Duration, error) {
	return parseDuration(p.Dispenser, "window", value, 1, "a duration above zero such as 500ms, 1m, 24h or 7d")
}
