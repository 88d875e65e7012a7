package redisratelimit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddyfileopt"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
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

// parseHandler reads the directive. Its syntax is that of docs/caddyfile.md, which a test holds to the tables policyOptions and
// handlerOptions.
//
// A handler has one policy, described in the directive itself, or any number of policy blocks. The common options of policies
// may also be next to the blocks: they are then the default for all of them.
func parseHandler(h httpcaddyfile.Helper, matcher directiveMatcher) (caddyhttp.MiddlewareHandler, error) {
	h.Next()
	options := optionParser{Dispenser: withFullNames(h.NextSegment()), helper: h}
	p := &handlerParser{optionParser: options, matcher: matcher, handler: new(Handler)}
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
	optionParser
	matcher  directiveMatcher
	handler  *Handler
	single   *Policy              // the policy described in the directive itself
	lines    caddyfileopt.Lines   // of the directive's options
	policies []caddyfileopt.Lines // of each policy's options
	blocks   policyBlocks
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
	case len(args) == 4 && isPeriod(args[2]):
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

// blocks are all kinds of blocks.
var blocks caddyfileopt.Blocks

func init() {
	common := optionsWith(policyOptions, func(o *option[Policy]) bool { return o.common })
	own := optionsWith(policyOptions, func(o *option[Policy]) bool { return !o.common })
	handlerNames, commonNames, policyNames = namesOf(handlerOptions), namesOf(common), namesOf(own)
	blockNames = slices.Concat(policyNames, commonNames)
	blocks = append(caddyfileopt.Blocks{
		blockOf("the directive redis_ratelimit, beside its policy blocks", handlerOptions),
		blockOf("the directive redis_ratelimit, or a policy block in it", common),
		blockOf("a policy: the directive redis_ratelimit, or a policy block in it", own),
	}, appBlocks...)
	var decides []string
	for _, o := range optionsWith(slices.Concat(common, own), func(o *option[Policy]) bool { return o.unusable != "" }) {
		decides = append(decides, ", for "+o.unusable+" "+o.name)
	}
	deciding = strings.Join(decides, "")
}

// ownPolicyOptions are the options of a policy that are given in the directive itself.
func (p *handlerParser) ownPolicyOptions() []string {
	return slices.DeleteFunc(slices.Clone(policyNames), func(option string) bool {
		_, found := p.lines[option]
		return !found
	})
}

// parseOption reads an option in the directive itself.
func (p *handlerParser) parseOption() error {
	option := p.Val()
	if option == "policy" {
		return p.parsePolicy()
	}
	if err := p.once(option); err != nil {
		return err
	}
	if err := cmp.Or(blocks.NoSign(p.Dispenser), p.refusePolicy(option)); err != nil {
		return err
	}
	if o := optionOf(handlerOptions, option); o != nil {
		return o.parse(&p.optionParser, p.handler)
	}
	o := optionOf(policyOptions, option)
	switch {
	case o == nil:
		return blocks.Unknown(p.Dispenser, option, slices.Concat(blockNames, handlerNames))
	case !o.common:
		return o.parse(&p.optionParser, p.own())
	}
	common := Policy{Common: p.handler.Common}
	err := o.parse(&p.optionParser, &common)
	p.handler.Common = common.Common
	return err
}

// once notes where an option of the directive stands, and refuses one that stands there already. Of exempt, addresses, crawlers and
// sources have lines of their own, and sources several.
func (p *handlerParser) once(option string) error {
	ahead := *p.Dispenser
	if option != "exempt" || !ahead.NextArg() {
		return p.lines.Once(p.Dispenser, option)
	}
	switch kind := ahead.Val(); kind {
	case exemptSource:
		p.lines.Note(p.Dispenser, option+" "+kind)
		return nil
	case exemptCrawler:
		return p.lines.Once(p.Dispenser, option+" "+kind)
	}
	return p.lines.Once(p.Dispenser, option)
}

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
	own, err := blocks.Each(p.Dispenser, blockNames, func(option string) error {
		if option == "name" {
			return p.Err("name: a policy block has its name behind the word policy")
		}
		return optionOf(policyOptions, option).parse(&p.optionParser, policy)
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
