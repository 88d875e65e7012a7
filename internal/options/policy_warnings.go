package options

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// ClientHeaders are the headers in which proxies send a client's address, in their canonical form. A client can write
// them itself.
var ClientHeaders = []string{"X-Forwarded-For", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip", "Forwarded"}

// The placeholders that have the port of the client's connection, which differs between connections.
const (
	remoteName     = "http.request.remote"
	remotePortName = "http.request.remote.port"
)

// The placeholders with a part that a client may choose without another answer, and what gives a fresh quota then.
const (
	anyParameter = "adds a parameter has a fresh quota; use {path}, or {query.<name>}"
	anyPort      = "writes another port into Host has a fresh quota; use {host}"
)

var freshQuotas = map[string]string{
	"http.request.uri": anyParameter, "http.request.uri_escaped": anyParameter, "http.request.uri.query": anyParameter,
	"http.request.uri.query_escaped": anyParameter, "http.request.uri.prefixed_query": anyParameter,
	"http.request.orig_uri": anyParameter, "http.request.orig_uri.query": anyParameter,
	"http.request.orig_uri.prefixed_query": anyParameter, "http.request.hostport": anyPort,
}

// indexInPath finds what is probably the index of an array in a placeholder of the body.
var indexInPath = regexp.MustCompile(`json\..*\.\d+(?:\.|$)`)

// Warnings returns warnings of valid options that are hardly meant, as far as they do not depend on the routes. The
// policy must be checked.
func (p *Policy) Warnings() (texts []string) {
	const (
		fix      = "; write {client_ip} (in JSON {http.vars.client_ip})"
		ofClient = "policy %q: the key goes by the header %s, which clients can write, so that each request may have a quota of its own" +
			fix + ", and in the global option servers name the proxies in front in trusted_proxies"
		byAddress = "policy %q: the key goes by the request's body, and requests whose body the limit cannot read, but the application " +
			"may, count by their address; write on_empty_key reject"
		uncounted = "policy %q: the key goes by the request's body, and requests without the value are not counted; " +
			"write on_empty_key reject"
		ofArray      = "policy %q: %s has a number for a name; if it is the index of an array, no value is read there: write another key"
		ofConnection = "policy %q: the key has %s, which has the port of the connection, so that each connection has a quota of its own" + fix
	)
	if p.countsNone {
		texts = append(texts, fmt.Sprintf("policy %q: count has no path that match has, so that no request takes units; "+
			"write in match which requests the policy is for, those of count among them", p.Name))
	}
	if p.byAgentOf != "" {
		texts = append(texts, fmt.Sprintf("policy %q: match goes by the User-Agent of the crawler %s, which anyone may send; "+
			"name it in crawlers { ... } of the global option, and write match vars {%s} %[2]s", p.Name, p.byAgentOf, rule.CrawlerName))
	}
	for _, header := range p.parsed.Key.Headers() {
		if slices.Contains(ClientHeaders, header) {
			text := fmt.Sprintf(ofClient, p.Name, header)
			if header != "X-Forwarded-For" && header != "Forwarded" { // the one that is the default, and one that Caddy cannot read
				text += ", and this header in client_ip_headers"
			}
			texts = append(texts, text)
		}
	}
	texts = append(texts, p.turnWarnings()...)
	switch onEmpty := rule.EmptyKey(p.OnEmptyKey); {
	case p.parsed.Key.ReadsBody() && onEmpty == rule.EmptyKeyClientIP:
		texts = append(texts, fmt.Sprintf(byAddress, p.Name))
	case p.parsed.Key.ReadsBody() && onEmpty == rule.EmptyKeySkip:
		texts = append(texts, fmt.Sprintf(uncounted, p.Name))
	}
	for _, name := range p.parsed.Key.Placeholders() {
		if fresh := freshQuotas[name]; fresh != "" {
			texts = append(texts, fmt.Sprintf("policy %q: the key has %s: a client that %s", p.Name, rule.ShortNames("{"+name+"}"), fresh))
		}
		if bodyvalue.IsPlaceholder(name) && indexInPath.MatchString(name) {
			texts = append(texts, fmt.Sprintf(ofArray, p.Name, rule.ShortNames("{"+name+"}")))
		}
		if (name == remoteName || name == remotePortName) && !p.countsRunning() {
			short := "{remote" + strings.ReplaceAll(strings.TrimPrefix(name, remoteName), ".", "_") + "}"
			return append(texts, fmt.Sprintf(ofConnection, p.Name, short))
		}
	}
	return texts
}

// turnWarnings returns warnings of what turns go round by.
func (p *Policy) turnWarnings() (texts []string) {
	by := p.parsed.Wait.By
	if by == nil {
		return nil
	}
	for _, header := range by.Headers() {
		if slices.Contains(ClientHeaders, header) {
			texts = append(texts, fmt.Sprintf("policy %q: wait goes round by the header %s, which clients can write, so that each request may "+
				"have a turn of its own; write by {client_ip} (in JSON {http.vars.client_ip}), and in the global option servers name the "+
				"proxies in front in trusted_proxies", p.Name, header))
		}
	}
	return texts
}

// claimedIn returns a crawler that the DNS has names for and whose User-Agent matchers ask for; empty: none.
func claimedIn(sets caddyhttp.RawMatcherSets) string {
	for _, set := range sets {
		var fields map[string][]string
		if json.Unmarshal(set["header"], &fields) == nil {
			for name, values := range fields {
				if crawler := crawlers.Meant(values); strings.EqualFold(name, "User-Agent") && crawler != "" {
					return crawler
				}
			}
		}
		var within caddyhttp.RawMatcherSets
		if json.Unmarshal(set["not"], &within) == nil {
			if crawler := claimedIn(within); crawler != "" {
				return crawler
			}
		}
	}
	return ""
}

// lacksCounted reports whether no request can be one that count matches, as match is for fixed paths alone and count for others. What
// is not certain is not reported.
func (p *Policy) lacksCounted() bool {
	counted, fixed := []string{}, []string{}
	for _, set := range p.Count {
		paths := valuesOf(set, "path")
		if len(paths) == 0 {
			return false
		}
		counted = append(counted, paths...)
	}
	for _, set := range p.Match {
		paths := valuesOf(set, "path")
		if len(paths) == 0 || slices.ContainsFunc(paths, func(path string) bool { return strings.ContainsAny(path, "*{?[%\\") }) {
			return false
		}
		fixed = append(fixed, paths...)
	}
	return len(counted) > 0 && len(fixed) > 0 && !slices.ContainsFunc(counted, func(pattern string) bool { return meetsAny(pattern, fixed) })
}

// meetsAny reports whether a pattern may match one of some paths without wildcards, in any form that routers take for it.
func meetsAny(pattern string, paths []string) bool {
	prefix, wild := strings.CutSuffix(strings.ToLower(pattern), "*")
	if strings.ContainsAny(prefix, "*{?[%\\") {
		return true
	}
	prefix = strings.TrimRight(prefix, "/")
	return slices.ContainsFunc(paths, func(path string) bool {
		path = strings.TrimRight(strings.ToLower(path), "/")
		return path == prefix || wild && strings.HasPrefix(path, prefix) || strings.HasPrefix(prefix, path+".") // an extension
	})
}
