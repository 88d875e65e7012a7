package options

import (
	"cmp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
)

// Matcher is the matcher of a directive: its token, and the set of matchers that the token means. The zero value
// is none, or *.
type Matcher struct {
	Token string
	Set   caddy.ModuleMap
}

// ParseDirective reads the directive. Its syntax is that of docs/caddyfile.md, which a test holds to the tables policyOptions and
// handlerOptions.
//
// A handler has one policy, described in the directive itself, or any number of policy blocks. The common options of policies
// may also be next to the blocks: they are then the default for all of them.
func ParseDirective(h httpcaddyfile.Helper, matcher Matcher, rest RestOfCaddyfile) (*Directive, error) {
	h.Next()
	options := optionParser{Dispenser: withFullNames(h.NextSegment()), helper: h}
	p := &directiveParser{optionParser: options, matcher: matcher, directive: new(Directive), rest: rest}
	p.Next()
	p.lines = Lines{"": *p.Dispenser}
	err := p.parse()
	if err == nil {
		err = p.register(h.State)
	}
	if err != nil {
		return nil, NameEmpty(p.Dispenser, err)
	}
	return p.directive, nil
}

// RestOfCaddyfile is what the parser of a directive asks of the rest of the Caddyfile, and says to the process.
type RestOfCaddyfile struct {
	MaxBodies int64                    // bytes, by the global option
	Begins    func()                   // the directive is the first one
	Warn      func(routetrace.Warning) // of what a policy can hardly mean
}

// directiveParser reads one directive.
type directiveParser struct {
	optionParser
	matcher   Matcher
	directive *Directive
	single    *Policy // the policy described in the directive itself
	lines     Lines   // of the directive's options
	policies  []Lines // of each policy's options
	blocks    policyBlocks
	rest      RestOfCaddyfile
}

// parse reads the directive's arguments and its block.
func (p *directiveParser) parse() error {
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
	if len(p.directive.Policies) > 0 && p.single != nil {
		outside := p.ownPolicyOptions()
		at := p.lines[outside[0]]
		return at.Errf("a policy block excludes %s outside of it: move it into a policy block of its own", strings.Join(outside, ", "))
	}
	if p.single != nil || len(p.directive.Policies) == 0 {
		p.directive.Policies = []*Policy{p.own()}
		p.policies = []Lines{p.lines}
	}
	return nil
}

// parseArguments reads the directive's line.
func (p *directiveParser) parseArguments(args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case len(args) == 3:
		err := p.parseShort(args)
		if meant := readShortForm(args); err != nil && meant.isWhole() && meant.differs(args) {
			err = p.Errf("%s takes <key> <limit> <window>%s", AppName, meant.advice(p.matcher.Token))
		}
		return err
	case len(args) == 4 && isPeriod(args[2]):
		return p.Errf("%s takes <key> <limit> <window>, or all options in a block; a time zone "+
			"belongs into the block, with the window: window %s %s",
			AppName, args[2], args[3])
	case len(args) == 1 && (args[0] == "everyone" || args[0] == "all") && p.hasBlock():
		return p.Errf("%s %s: a key belongs into the block: write %[1]s { and in the next line key %[2]s", AppName, args[0])
	case len(args) == 1 && limiter.ValidName(args[0]) && p.hasBlock():
		return p.Errf("%s %s: a name belongs into the block: write %[1]s { and in the next line name %[2]s", AppName, args[0])
	case strings.HasPrefix(p.matcher.Token, "/") && strings.Contains(p.matcher.Token, "{"):
		return p.Errf("%s takes <key> <limit> <window>; a key that begins with '/', '@' or '*' is taken for the matcher: "+
			"write it into the block, behind the word key", AppName)
	}
	meant, besides := readShortForm(args), ""
	if meant.window == "" {
		besides = ". With max_concurrent, the key belongs into the block"
	}
	return p.Errf("%s takes <key> <limit> <window>, or all options in a block%s%s", AppName, meant.advice(p.matcher.Token), besides)
}

// hasBlock reports whether a block begins in the current line.
func (p *directiveParser) hasBlock() bool {
	ahead := *p.Dispenser
	ahead.RemainingArgs()
	return ahead.NextBlock(ahead.Nesting())
}

// parseShort reads the short form's key, limit and window.
func (p *directiveParser) parseShort(args []string) error {
	own := p.own()
	for _, option := range []string{"key", "limit", "window"} {
		p.lines.Note(p.Dispenser, option)
	}
	own.Key = args[0]
	err := NotEmpty(p.Dispenser, "key", own.Key)
	if err != nil {
		return err
	}
	if own.Limit, err = p.numberOrSize(own, "limit", args[1]); err != nil {
		return err
	}
	return p.setWindow(own, args[2])
}

// own returns the policy described in the directive itself.
func (p *directiveParser) own() *Policy {
	if p.single == nil {
		p.single = new(Policy)
	}
	return p.single
}

// KnownBlocks are all kinds of blocks.
var KnownBlocks Blocks

// AddBlocks adds those of the global option, so that errors say of a word where it belongs.
func AddBlocks(more ...Block) { KnownBlocks = append(KnownBlocks, more...) }

func init() {
	common := optionsWith(policyOptions, func(o *option[Policy]) bool { return o.common })
	own := optionsWith(policyOptions, func(o *option[Policy]) bool { return !o.common })
	handlerNames, commonNames, policyNames = namesOf(handlerOptions), namesOf(common), namesOf(own)
	blockNames = slices.Concat(policyNames, commonNames)
	AddBlocks(
		blockOf("the directive redis_ratelimit, beside its policy blocks", handlerOptions),
		blockOf("the directive redis_ratelimit, or a policy block in it", common),
		blockOf("a policy: the directive redis_ratelimit, or a policy block in it", own),
	)
	var decides []string
	for _, o := range optionsWith(slices.Concat(common, own), func(o *option[Policy]) bool { return o.unusable != "" }) {
		decides = append(decides, ", for "+o.unusable+" "+o.name)
	}
	Deciding = strings.Join(decides, "")
}

// ownPolicyOptions are the options of a policy that are given in the directive itself.
func (p *directiveParser) ownPolicyOptions() []string {
	return slices.DeleteFunc(slices.Clone(policyNames), func(option string) bool {
		_, found := p.lines[option]
		return !found
	})
}

// parseOption reads an option in the directive itself.
func (p *directiveParser) parseOption() error {
	option := p.Val()
	if option == "policy" {
		return p.parsePolicy()
	}
	if err := p.once(option); err != nil {
		return err
	}
	if err := cmp.Or(KnownBlocks.NoSign(p.Dispenser), p.refusePolicy(option)); err != nil {
		return err
	}
	if o := optionOf(handlerOptions, option); o != nil {
		return o.parse(&p.optionParser, p.directive)
	}
	o := optionOf(policyOptions, option)
	switch {
	case o == nil:
		return KnownBlocks.Unknown(p.Dispenser, option, slices.Concat(blockNames, handlerNames))
	case !o.common:
		return o.parse(&p.optionParser, p.own())
	}
	common := Policy{Common: p.directive.Common}
	err := o.parse(&p.optionParser, &common)
	p.directive.Common = common.Common
	return err
}

// once notes where an option of the directive stands, and refuses one that stands there already. Of exempt, addresses, crawlers and
// sources have lines of their own, and sources several.
func (p *directiveParser) once(option string) error {
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
func (p *directiveParser) parsePolicy() error {
	args := p.RemainingArgs()
	if len(args) != 1 {
		return p.Errf("policy takes one value, its name, got %d; its options follow in a block", len(args))
	}
	name := args[0]
	if name == "" {
		return p.Err("policy: empty; write its name behind the word policy")
	}
	policy := &Policy{Name: name}
	p.directive.Policies = append(p.directive.Policies, policy)
	own, err := KnownBlocks.Each(p.Dispenser, blockNames, func(option string) error {
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

// Syntax returns the lines of the options of policies and of handlers by their names, in the words of docs/caddyfile.md: that of the
// option, and one of its block.
func Syntax() (policies, handlers map[string][]string) {
	return linesOf(policyOptions), linesOf(handlerOptions)
}

func linesOf[T any](options []option[T]) map[string][]string {
	lines := map[string][]string{}
	for i := range options {
		o := &options[i]
		lines[o.name] = append(lines[o.name], o.name+" "+o.form)
		if o.lines != "" {
			lines[o.name] = append(lines[o.name], o.name+" { "+o.lines)
		}
	}
	return lines
}

// HoldingOptions names the options of policies by which requests are held.
func HoldingOptions() []string {
	return namesOf(optionsWith(policyOptions, func(o *option[Policy]) bool { return o.holds }))
}
