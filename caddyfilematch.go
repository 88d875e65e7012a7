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

// parseCountIf reads a response matcher, in a line or in a block.
func (p *handlerParser) parseCountIf(policy *Policy) error {
	option, matchers := p.Val(), map[string]caddyhttp.ResponseMatcher{}
	if err := caddyhttp.ParseNamedResponseMatcher(p.NewFromNextSegment(), matchers); err != nil {
		return p.WrapErr(err)
	}
	counts := matchers[option]
	if len(counts.StatusCode) == 0 && len(counts.Headers) == 0 {
		return p.Err("count_if takes a response matcher such as status 401 403, or header X-Failed *")
	}
	for _, status := range counts.StatusCode {
		if status < 1 || (status > 5 && status < 100) || status > 599 {
			return p.Errf("count_if status %d: use a status such as 401, or a class such as 4xx", status)
		}
	}
	policy.CountIf = &counts
	return nil
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
