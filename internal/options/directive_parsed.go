package options

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

// This file has what is checked of a directive as a whole, where the lines of its options are known.

// completed returns a copy of the handler with all defaults, which are not written into the JSON.
func (p *directiveParser) completed() *Directive {
	whole := *p.directive
	whole.Policies = nil
	for _, policy := range p.directive.Policies {
		whole.Policies = append(whole.Policies, new(*policy))
	}
	whole.SetDefaults()
	return &whole
}

// registeredState is the key of the policies that the directives of one Caddyfile have named.
const registeredState = AppName + ".policies"

// register refuses an invalid handler, and a policy's name that has other settings elsewhere in the Caddyfile. When Caddy
// loads the JSON it would find the same errors, but without their lines.
func (p *directiveParser) register(state map[string]any) error {
	whole := p.completed()
	if err := p.checkSizes(); err != nil {
		return err
	}
	_, err := whole.Body.Bounds(p.rest.MaxBodies)
	if err := cmp.Or(whole.Check(), err, p.checkMatcher(), p.checkUsage()); err != nil {
		return p.lines.Wrap(err)
	}
	registered, ok := state[registeredState].(Registry)
	if !ok {
		registered = Registry{}
		state[registeredState] = registered
		p.rest.Begins()
	}
	for i, policy := range whole.Policies {
		begin := p.policies[i][""]
		at := fmt.Sprintf("%s:%d", begin.File(), begin.Line())
		_, err := registered.Register(policy.Settings(), policy.Identity(), " at "+p.policies[i].Place())
		if errors.As(err, new(AmbiguityError)) {
			return err
		} else if err != nil {
			return p.policies[i].Wrap(err)
		}
		for _, text := range policy.Warnings() {
			p.rest.Warn(routetrace.Warning{Place: at, Text: text})
		}
	}
	return nil
}

// checkMatcher refuses a matcher of the directive that no request meets, that asks for the body, since it is asked before the
// directive reads one, or whose requests have none where a policy goes by it.
func (p *directiveParser) checkMatcher() error {
	if p.matcher.Set == nil {
		return nil
	}
	if name := bodyNameIn(p.matcher.Set); name != "" {
		return fmt.Errorf("%s: {%s} has no value before the directive reads the body; write such a matcher in the directive: match %[1]s",
			p.matcher.Token, name)
	}
	for _, policy := range p.directive.Policies {
		if err := policy.checkCalls(p.matcher.Token, caddyhttp.RawMatcherSets{p.matcher.Set}); err != nil {
			return err
		}
	}
	return checkMatchers(p.matcher.Token, p.matcher.Set)
}

// checkUsage refuses a path for reading quotas that requests cannot reach through the directive's own matcher.
func (p *directiveParser) checkUsage() error {
	usage := p.directive.Usage
	if usage == "" {
		return nil
	}
	methods := valuesOf(p.matcher.Set, "method")
	if len(methods) > 0 && !slices.Contains(methods, http.MethodGet) && !slices.Contains(methods, http.MethodHead) {
		return fmt.Errorf("usage %s: GET and HEAD of it are answered, and the matcher %s of this directive takes neither; "+
			"write method GET %[3]s there, and match method %[3]s in each policy, or GET is counted too",
			usage, p.matcher.Token, strings.Join(methods, " "))
	}
	patterns := valuesOf(p.matcher.Set, "path")
	if len(patterns) == 0 || strings.Contains(strings.Join(patterns, ""), "{") || matchesPath(patterns, usage) {
		return nil
	}
	within := "a path that it takes, or widen it"
	if prefix, found := strings.CutSuffix(patterns[0], "/*"); found && !strings.Contains(prefix, "*") {
		within = "usage " + prefix + usage[strings.LastIndexByte(usage, '/'):]
	}
	return fmt.Errorf("usage %s: the matcher %s of this directive leaves this path out; write %s", usage, p.matcher.Token, within)
}

// refusePolicy refuses an unknown word before a block with options of a policy: the word policy was forgotten.
func (p *directiveParser) refusePolicy(option string) error {
	if slices.Contains(blockNames, option) || slices.Contains(handlerNames, option) {
		return nil
	}
	ahead := *p.Dispenser
	args := ahead.RemainingArgs()
	for nesting := ahead.Nesting(); ahead.NextBlock(nesting); {
		if !slices.Contains([]string{"limit", "window", "key", "max_concurrent", "algorithm", "events"}, ahead.Val()) {
			ahead.RemainingArgs()
			continue
		}
		name := option
		if len(args) == 1 {
			name = args[0]
		}
		if !limiter.ValidName(name) {
			name = "<name>"
		}
		return p.Errf("unknown option %s; a policy has a block of its own: write policy %s {", secretfile.Redact(option), name)
	}
	return nil
}
