package options

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// parseKey reads a key, which is one text.
func parseKey(p *optionParser, policy *Policy) error {
	if err := p.checkOneKey(); err != nil {
		return err
	}
	return one(func(p *Policy) *string { return &p.Key }, text)(p, policy)
}

// parseReserve reads units, percent or a size.
func (p *optionParser) parseReserve(policy *Policy) error {
	value, err := Value(p.Dispenser)
	if err != nil {
		return err
	}
	policy.Reserve = Reserve(p.reserveOf(policy, value))
	return nil
}

// numberFrom reads a number, or a placeholder and its fallback, into the two fields for them.
func numberFrom(fields func(*Policy) (number *int64, source *string)) func(*optionParser, *Policy) error {
	return func(p *optionParser, policy *Policy) error {
		number, source := fields(policy)
		return p.parseNumber(policy, number, source)
	}
}

// parseNumber reads a number, or a placeholder and its fallback.
func (p *optionParser) parseNumber(policy *Policy, number *int64, source *string) (err error) {
	option, args := p.Val(), p.RemainingArgs()
	meant := readShortForm(args)
	switch {
	case p.NextBlock(p.Nesting()):
		return p.Errf("%s takes no block", option)
	case option == "limit" && len(args) > 0 && meant.isWhole() && meant.key == "":
		return p.Errf("limit %s: the window has a line of its own; write limit %s and in the next line window %s",
			strings.Join(args, " "), meant.limit, meant.window)
	case option == "weight" && len(args) == 1 && rule.IsWeightWord(args[0]):
		*source = args[0]
		return nil
	case len(args) == 1:
		*number, err = p.numberOrSize(policy, option, args[0])
		return err
	case len(args) != 2 && option == "weight":
		return p.Errf("weight takes a number; %s or %s, and a number; or a placeholder such as {json.max_tokens} and a number; got %d values",
			rule.TokensOfModel, rule.CallsOfBatch, len(args))
	case len(args) != 2:
		return p.Errf("%s takes a number, or a placeholder and a number, got %d values", option, len(args))
	}
	if _, err := parseNumberFrom(option, args[0]); err != nil {
		return p.WrapErr(err)
	}
	*source = args[0]
	if mayBeUnlimited(option) && args[1] == rule.WordUnlimited {
		policy.Unlimited = true
		return nil
	}
	*number, err = p.numberOrSize(policy, option, args[1])
	switch {
	case err != nil && mayBeUnlimited(option):
		return p.Errf("%s %s %s: behind the placeholder, use a whole number from 1, or %s", option, args[0], args[1], rule.WordUnlimited)
	case err != nil && rule.IsWeightWord(args[0]):
		return p.Errf("%s %s %s: behind %[2]s, use a whole number from 1", option, args[0], args[1])
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

// inFlight reads how many units look at once.
func inFlight(d *caddyfile.Dispenser, option, value string) (int64, error) {
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil || n > rule.MostInFlight {
		return 0, d.Errf("%s %s: use a number from 0 to %d", option, secretfile.Redact(value), rule.MostInFlight)
	}
	return int64(n), nil
}

// parseCost reads the source of a cost, and the fallback behind it.
func (p *optionParser) parseCost(policy *Policy) (err error) {
	from, behind := rule.CutCost(p.RemainingArgs())
	if from == "" || len(behind) > 1 || p.NextBlock(p.Nesting()) {
		return p.Errf("cost takes %s or %s alone; or json and paths of numbers in the body, joined without spaces, or %s, or a placeholder, "+
			"and the number that counts if it has none, such as cost json usage.input_tokens+usage.output_tokens 500, "+
			"cost %[3]s 4000, or cost {http.reverse_proxy.header.X-Tokens-Used}", rule.ResponseBytes, rule.BackendTime, rule.TokensOfModel)
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
func (p *optionParser) parseBan(policy *Policy) error {
	const form = "one duration or more, each for one more offense, such as ban 30s 5m 1h, or ban 30s 5m after 3"
	args := p.RemainingArgs()
	policy.Ban = new(Ban)
	if at := slices.Index(args, "after"); at >= 0 {
		if len(args) != at+2 {
			return p.Errf("ban: after takes one number, at the end; use %s", form)
		}
		after, err := Number(p.Dispenser, "ban: after "+secretfile.Redact(args[at+1]), args[at+1], 1, limiter.MaxBanAfter)
		if err != nil {
			return err
		}
		policy.Ban.After, args = after, args[:at]
	}
	if len(args) == 0 || p.NextBlock(p.Nesting()) {
		return p.Errf("ban takes %s", form)
	}
	for _, text := range args {
		duration, err := Duration(p.Dispenser, "ban", text, limiter.MinBan, form+"; durations are from 1s to 365d")
		if err != nil {
			return err
		}
		policy.Ban.Durations = append(policy.Ban.Durations, duration)
	}
	return nil
}

// parseLease reads how long a lease lasts at most.
func (p *optionParser) parseLease(policy *Policy) (err error) {
	const form = "a duration from 5ms to 1s, how long a lease lasts at most, or none for 1s"
	args := p.RemainingArgs()
	if len(args) > 1 || p.NextBlock(p.Nesting()) {
		return p.Errf("lease takes %s", form)
	}
	policy.Lease = caddy.Duration(limiter.MaxLease)
	if len(args) == 1 {
		policy.Lease, err = Duration(p.Dispenser, "lease", args[0], limiter.MinLease, form)
	}
	return err
}

// parseChallenge reads how many passes a key has, the limit of each, and a block with the page.
func (p *optionParser) parseChallenge(policy *Policy) (err error) {
	args := p.RemainingArgs()
	if len(args) > 2 {
		return p.Err("challenge takes how many passes a key has, from 1 to 1000, and the limit of a pass, " +
			"or none for 10 passes with the policy's limit")
	}
	policy.Challenge = new(Challenge)
	if len(args) > 0 {
		policy.Challenge.Passes, err = Number(p.Dispenser, "challenge "+secretfile.Redact(args[0]), args[0], 1, rule.MaxPasses)
	}
	if len(args) == 2 && err == nil {
		policy.Challenge.Limit, err = p.wholeNumber("challenge "+args[0], args[1])
	}
	for nesting := p.Nesting(); err == nil && p.NextBlock(nesting); {
		err = p.parsePage(policy.Challenge)
	}
	return err
}

// parsePage reads the one option of a challenge's block.
func (p *optionParser) parsePage(c *Challenge) (err error) {
	switch {
	case p.Val() != "page":
		return p.Errf("challenge: unknown option %s; its block has page, such as page /etc/caddy/wait.html", secretfile.Redact(p.Val()))
	case c.Page != "":
		return p.Err("page: is given twice")
	}
	c.Page, err = Value(p.Dispenser)
	return err
}

// parseWait reads how long a request waits, how many of a key do, and what turns go round by.
func (p *optionParser) parseWait(policy *Policy) (err error) {
	args := p.RemainingArgs()
	if len(args) == 0 || p.NextBlock(p.Nesting()) {
		return p.Err("wait takes how long a request waits, how many of a key wait on a node, and by what values turns go round, " +
			"such as wait 30s, wait 30s 200, or wait 30s 200 by {http.auth.user.id}")
	}
	policy.Wait = new(Wait)
	if policy.Wait.Longest, err = Duration(p.Dispenser, "wait", args[0], minWait, waitBounds); err != nil {
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
func (p *optionParser) parseNotify(policy *Policy) error {
	values, err := p.values("percentages of the capacity, such as notify 80% 100%")
	if err != nil {
		return err
	}
	for _, value := range values {
		percent, err := Percent(p.Dispenser, "notify", value)
		if err != nil {
			return err
		}
		policy.Notify = append(policy.Notify, *percent)
	}
	return nil
}

// wholeNumber reads a number from 1.
func (p *optionParser) wholeNumber(option, value string) (int64, error) {
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
	meant := countMeant(value)
	if _, err := rule.ParseSize(value + "B"); err == nil && strings.ContainsAny(value, "KMGTP") {
		if meant != "" {
			meant = "; write " + option + " " + meant
		}
		return 0, p.Errf("%s %s: use a whole number from 1%s; of bytes, with cost response_bytes, write %[1]s %[2]sB", option, value, meant)
	}
	if meant != "" {
		return 0, p.Errf("%s %s: use a whole number from 1; write %[1]s %[3]s", option, value, meant)
	}
	if errors.Is(err, strconv.ErrRange) {
		return 0, p.Errf("%s %s: too large; use a whole number from 1 to 2^52", option, value)
	}
	return 0, p.Errf("%s %s: use a whole number from 1", option, value)
}

var (
	thousands = regexp.MustCompile(`^([1-9]\d{0,8})([kKM])$`)
	separated = regexp.MustCompile(`^[1-9]\d{0,2}(?:[_,']\d{3}){1,4}$`)
)

// countMeant returns the whole number that 50k, 5M or 50_000 is meant for; empty for any other text.
func countMeant(text string) string {
	if parts := thousands.FindStringSubmatch(text); parts != nil {
		return parts[1] + map[string]string{"k": "000", "K": "000", "M": "000000"}[parts[2]]
	}
	if separated.MatchString(text) {
		return strings.NewReplacer("_", "", ",", "", "'", "").Replace(text)
	}
	return ""
}
