package redisratelimit

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// parseMatch reads match with the name of a matcher of the site, or with a block of matchers.
func (p *handlerParser) parseMatch(policy *Policy) error {
	set, err := p.matcherSet()
	if err != nil {
		return err
	}
	policy.Match = caddyhttp.RawMatcherSets{set}
	return nil
}

func (p *handlerParser) matcherSet() (caddy.ModuleMap, error) {
	segment := p.NextSegment()
	d := caddyfile.NewDispenser(segment)
	d.Next()
	args := d.RemainingArgs()
	switch {
	case len(args) == 0 && len(segment) > 1:
		d.Reset()
		d.Next()
		return caddyhttp.ParseCaddyfileNestedMatcherSet(d)
	case len(args) != 1 || !strings.HasPrefix(args[0], "@"):
		return nil, p.Err("match takes a named matcher such as @api, or a block of matchers such as { path /api/* }")
	}
	d.Reset()
	d.Next()
	set, _, err := p.helper.WithDispenser(d).MatcherToken()
	if err != nil {
		return nil, p.Errf("match %s: %v; define it in this site, such as %[1]s path /api/*", args[0], err)
	}
	return set, nil
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
