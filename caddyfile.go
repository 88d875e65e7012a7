package redisratelimit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddyfileopt"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/quotaheader"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/refusal"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
)

func init() {
	httpcaddyfile.RegisterDirective(appName, parseDirective)
	httpcaddyfile.RegisterDirectiveOrder(appName, httpcaddyfile.Before, "basic_auth")
}

// parseDirective reads the directive and its matcher.
func parseDirective(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	h.Next()
	ahead := *h.Dispenser
	ahead.NextArg()
	first := ahead.Val() // before Caddy takes the matcher out
	set, err := h.ExtractMatcherSet()
	if err != nil {
		return nil, h.WrapErr(err)
	}
	matcher := directiveMatcher{set: set}
	if set != nil {
		matcher.token = first
	}
	handler, err := parseHandler(h, matcher)
	if err != nil {
		return nil, err
	}
	return h.NewRoute(set, handler), nil
}

// directiveMatcher is the matcher of a directive: its token, and the set of matchers that the token means. The zero value
// is none, or *.
type directiveMatcher struct {
	token string
	set   caddy.ModuleMap
}

// parseHandler reads the directive:
//
//	redis_ratelimit [<matcher>] [<key> <limit> <window>] {
//		name           <name>
//		key            <text with placeholders>
//		limit          <n> | <placeholder> <n>|unlimited
//		window         <duration> | day|week|month|year [<time zone>]
//		algorithm      sliding_window_counter|sliding_window_log|fixed_window|token_bucket|leaky_bucket|gcra
//		burst          <n> | <placeholder> <n>
//		max_delay      <duration>
//		max_concurrent <n> | <placeholder> <n>|unlimited
//		node_timeout   <duration>
//		wait           <duration> [<n>] [by <text with placeholders>]
//		weight         <n> | <placeholder> <n> | llm [<n>]
//		cost           response_bytes | json <sum> [<n>] | llm [<n>] | <placeholder> [<n>]
//		reserve        <n>|<percentage>
//		ban            <duration>... [after <n>]
//		lease          [<duration>]
//		challenge      [<passes>] | <passes> <limit>
//		enforce        <percentage>
//		notify         <percentage>...
//		raw_key
//		on_unread      refuse|pass
//		match          <matcher> | @<name>
//		match {
//			<matcher>...
//		}
//		count_if       <response matcher>
//		count_if {
//			<response matcher>...
//		}
//
//		dry_run
//		ipv4_prefix    <0-32>
//		ipv6_prefix    <0-128>
//		on_empty_key   client_ip|skip|reject
//
//		policy <name> {
//			<the options above, except name>
//		}
//
//		exempt         <address, range or private_ranges>...
//		fail_mode      local|open|closed
//		status         <400-599>
//		headers        off | x_ratelimit [ietf] | ietf
//		retry_jitter   <duration>
//		answer         auto|text|json|problem|jsonrpc|none|error
//		body           <size> [<duration>]
//		log_keys
//		usage          <path>
//	}
//
// A handler has one policy, described in the directive itself, or any number of policy blocks. The four
// options before policy may also be next to the blocks: they are then the default for all of them.
func parseHandler(h httpcaddyfile.Helper, matcher directiveMatcher) (caddyhttp.MiddlewareHandler, error) {
	h.Next()
	p := &handlerParser{Dispenser: withFullNames(h.NextSegment()), helper: h, matcher: matcher, handler: new(Handler)}
	p.Next()
	p.lines = caddyfileopt.Lines{"": *p.Dispenser}
	err := p.parse()
	if err == nil {
		err = p.register(h.State)
	}
	if err != nil {
		return nil, caddyfileopt.NameEmpty(p.Dispenser, err)
	}
	return p.handler, nil
}

// handlerParser reads one directive.
type handlerParser struct {
	*caddyfile.Dispenser
	helper   httpcaddyfile.Helper
	matcher  directiveMatcher
	handler  *Handler
	single   *Policy              // the policy described in the directive itself
	lines    caddyfileopt.Lines   // of the directive's options
	policies []caddyfileopt.Lines // of each policy's options
	blocks   policyBlocks
	sizes    []sizeOption
}

// parse reads the directive's arguments and its block.
func (p *handlerParser) parse() error {
	args := p.RemainingArgs()
	if err := p.parseArguments(args); err != nil {
		return err
	}
	for p.NextBlock(0) {
		if err := p.parseOption(); err != nil {
			return err
		}
	}
	if at, found := p.lines["max_concurrent"]; found && len(args) > 0 {
		return at.Errf("max_concurrent: replaces a limit and a window, and the short form has both; " +
			"write the key into the " +
			"block instead, behind the word key")
	}
	if len(p.handler.Policies) > 0 && p.single != nil {
		outside := p.ownPolicyOptions()
		at := p.lines[outside[0]]
		return at.Errf("a policy block excludes %s outside of it: move it into a policy block of its own", strings.Join(outside, ", "))
	}
	if p.single != nil || len(p.handler.Policies) == 0 {
		p.handler.Policies = []*Policy{p.own()}
		p.policies = []caddyfileopt.Lines{p.lines}
	}
	return nil
}

// parseArguments reads the directive's line.
func (p *handlerParser) parseArguments(args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case len(args) == 3:
		err := p.parseShort(args)
		if meant := readShortForm(args); err != nil && meant.isWhole() && meant.differs(args) {
			err = p.Errf("%s takes <key> <limit> <window>%s", appName, meant.advice(p.matcher.token))
		}
		return err
	case len(args) == 4 && isCalendar(args[2]):
		return p.Errf("%s takes <key> <limit> <window>, or all options in a block; a time zone "+
			"belongs into the block, with the window: window %s %s",
			appName, args[2], args[3])
	case len(args) == 1 && limiter.ValidName(args[0]) && p.hasBlock():
		return p.Errf("%s %s: a name belongs into the block: write %[1]s { and in the next line name %[2]s", appName, args[0])
	case strings.HasPrefix(p.matcher.token, "/") && strings.Contains(p.matcher.token, "{"):
		return p.Errf("%s takes <key> <limit> <window>; a key that begins with '/', '@' or '*' is taken for the matcher: "+
			"write it into the block, behind the word key", appName)
	}
	meant, besides := readShortForm(args), ""
	if meant.window == "" {
		besides = ". With max_concurrent, the key belongs into the block"
	}
	return p.Errf("%s takes <key> <limit> <window>, or all options in a block%s%s", appName, meant.advice(p.matcher.token), besides)
}

// hasBlock reports whether a block begins in the current line.
func (p *handlerParser) hasBlock() bool {
	ahead := *p.Dispenser
	ahead.RemainingArgs()
	return ahead.NextBlock(ahead.Nesting())
}

// parseShort reads the short form's key, limit and window.
func (p *handlerParser) parseShort(args []string) error {
	own := p.own()
	for _, option := range []string{"key", "limit", "window"} {
		p.lines.Note(p.Dispenser, option)
	}
	own.Key = args[0]
	err := caddyfileopt.NotEmpty(p.Dispenser, "key", own.Key)
	if err != nil {
		return err
	}
	if own.Limit, err = p.numberOrSize(own, "limit", args[1]); err != nil {
		return err
	}
	return p.setWindow(own, args[2])
}

// own returns the policy described in the directive itself.
func (p *handlerParser) own() *Policy {
	if p.single == nil {
		p.single = new(Policy)
	}
	return p.single
}

// handlerOptions are the options of the handler itself.
var handlerOptions = []string{
	"policy", "exempt", "fail_mode", "status", "headers", "retry_jitter", "answer", "body", "log_keys", "usage",
}

// commonOptions are the options of a policy that may also be next to policy blocks.
var commonOptions = []string{"dry_run", "ipv4_prefix", "ipv6_prefix", "on_empty_key"}

// policyOptions are the options of a policy.
var policyOptions = []string{
	"name", "key", "limit", "window", "algorithm", "burst", "max_delay", "max_concurrent", "node_timeout", "wait", "weight",
	"match", "on_unread", "raw_key",
	"count_if", "cost", "ban", "lease",
	"reserve", "enforce", "notify", "challenge",
}

// ownPolicyOptions are the options of a policy that are given in the directive itself.
func (p *handlerParser) ownPolicyOptions() []string {
	return slices.DeleteFunc(slices.Clone(policyOptions), func(option string) bool {
		_, found := p.lines[option]
		return !found
	})
}

func (p *handlerParser) parseOption() error {
	option := p.Val()
	if option == "policy" {
		return p.parsePolicy()
	}
	if err := p.lines.Once(p.Dispenser, option); err != nil {
		return err
	}
	if err := cmp.Or(caddyfileopt.NoSign(p.Dispenser), p.refusePolicy(option)); err != nil {
		return err
	}
	switch {
	case slices.Contains(policyOptions, option):
		return p.parsePolicyOption(p.own())
	case slices.Contains(commonOptions, option):
		return p.parseCommon(option, &p.handler.Common)
	case !slices.Contains(handlerOptions, option):
		return blocks.Unknown(p.Dispenser, option, slices.Concat(policyOptions, commonOptions, handlerOptions))
	}
	return p.parseHandlerOption(option)
}

// parseHandlerOption reads an option of the handler itself.
func (p *handlerParser) parseHandlerOption(option string) (err error) {
	h := p.handler
	switch option {
	case "log_keys":
		return p.flag(&h.LogKeys)
	case "body":
		h.Body, err = p.parseBody()
		return err
	case "exempt":
		h.Exempt, err = p.values("an address, a range or private_ranges")
		return err
	case "headers":
		h.Headers, err = p.values(quotaheader.FormatsHint())
		return err
	}
	value, err := caddyfileopt.Value(p.Dispenser)
	if err != nil {
		return err
	}
	switch option {
	case "retry_jitter":
		h.RetryJitter, err = caddyfileopt.Duration(p.Dispenser, option, value, 0, retryJitterBounds)
	case "fail_mode":
		h.FailMode = limiter.FailMode(value)
	case "answer":
		h.Answer = refusal.Answer(value)
	case "usage":
		h.Usage = value
	case "status":
		h.Status, err = caddyfileopt.Number(p.Dispenser, option, value, 400, 599)
	}
	return err
}

// completed returns a copy of the handler with all defaults, which are not written into the JSON.
func (p *handlerParser) completed() *Handler {
	whole := *p.handler
	whole.Policies = nil
	for _, policy := range p.handler.Policies {
		whole.Policies = append(whole.Policies, new(*policy))
	}
	whole.setDefaults()
	return &whole
}

// registeredState is the key of the policies that the directives of one Caddyfile have named.
const registeredState = appName + ".policies"

// register refuses an invalid handler, and a policy's name that has other settings elsewhere in the Caddyfile. When Caddy
// loads the JSON it would find the same errors, but without their lines.
func (p *handlerParser) register(state map[string]any) error {
	whole := p.completed()
	if err := p.checkSizes(); err != nil {
		return err
	}
	maxBodies, err := maxBodiesOf(p.helper.Option(appName))
	if err != nil {
		return err
	}
	_, err = whole.Body.bounds(maxBodies)
	if err := cmp.Or(whole.check(), err, p.checkMatcher(), p.checkUsage()); err != nil {
		return p.lines.Wrap(err)
	}
	registered, ok := state[registeredState].(registeredPolicies)
	if !ok {
		registered = registeredPolicies{}
		state[registeredState] = registered
		noticed.beginParsing()
	}
	for i, policy := range whole.Policies {
		begin := p.policies[i][""]
		at := fmt.Sprintf("%s:%d", begin.File(), begin.Line())
		_, err := registered.register(policy.settings(), policy.identity(), " at "+p.policies[i].Place())
		if errors.As(err, new(ambiguityError)) {
			return err
		} else if err != nil {
			return p.policies[i].Wrap(err)
		}
		for _, text := range policy.warnings() {
			noticed.logParsed(pool.Warnings.Watch(caddy.Log().Named(appName)), routetrace.Warning{Place: at, Text: text})
		}
	}
	return nil
}

// checkMatcher refuses a matcher of the directive that no request meets, or that asks for the body: it is asked before the
// directive reads one.
func (p *handlerParser) checkMatcher() error {
	if p.matcher.set == nil {
		return nil
	}
	if name := bodyNameIn(p.matcher.set); name != "" {
		return fmt.Errorf("%s: {%s} has no value before the directive reads the body; write such a matcher in the directive: match %[1]s",
			p.matcher.token, name)
	}
	return checkMatchers(p.matcher.token, p.matcher.set)
}
