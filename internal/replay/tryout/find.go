package tryout

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// playSpellings plays the spellings of the table for the key and the path of the request.
func (t *trial) playSpellings() {
	r := t.place.Rule
	values := keyValues(r)
	keyParts := t.keyParts(values)
	if r.Key.Raw && len(keyParts) > 0 {
		t.note("raw_key: other spellings of the key have other quotas, as you have chosen")
		keyParts = nil
	}
	for _, p := range keyParts {
		t.playPart(p, t.base)
	}
	base, ofKey := t.base, slices.ContainsFunc(values, func(v keyValue) bool { return v.kind == "path" || v.kind == "uri" })
	if base.path() == "/" && ofKey {
		base = base.clone()
		base.target = "/login" + base.query()
	}
	switch {
	case base.path() == "/":
	case t.given.StrictPaths:
		t.note("--strict-paths: other spellings of " + base.path() + " are not played")
	case ofKey && r.Key.Raw:
	case strings.HasSuffix(base.path(), ".php"):
		t.playPart(part{group: groupScript}, base)
	default:
		t.playPart(part{group: groupPath}, base)
	}
}

// keyParts returns the parts of the request that the key is made of, and that clients spell.
func (t *trial) keyParts(values []keyValue) (parts []part) {
	for _, v := range values {
		if v.kind == "header" && t.setters[http.CanonicalHeaderKey(v.name)] != "" {
			continue // a log-in spells it
		}
		for _, p := range v.parts(t.base, t.given.header) {
			if !slices.Contains(parts, p) {
				parts = append(parts, p)
			}
		}
	}
	return parts
}

// playPart plays the spellings of a part of a request whose quota is used up.
func (t *trial) playPart(p part, base *request) {
	for _, pair := range p.pairs(base) {
		used := t.useUp(pair.usual, fewRequests)
		if used.passed < 0 {
			continue // the request is no usual one here, such as a token of another form
		}
		for _, s := range pair.spelled {
			if t.ctx.Err() != nil {
				return
			}
			t.judge(p, &pair, &s, used.check.Key)
		}
	}
}

// judge plays a spelling, when the quota of the usual one is used up.
func (t *trial) judge(p part, usual *pair, s *respelling, key limiter.EncodedKey) {
	o := t.send(s.request, t.counted)
	counts := &t.result.Spellings
	switch {
	case o.check != nil && o.check.Key == key: // refused, or let through by a handler that reserves less
		counts.Same++
	case o.Outcome == limiter.OutcomeRejected, o.check == nil && t.wouldReject(p):
		counts.Refused++
	case o.check != nil:
		counts.Other++
		t.find(p, usual, s, t.otherQuota(o.check))
	case !o.HasContent && o.Answered != t.answered:
		counts.Unanswered++
	default:
		counts.Uncounted++
		t.find(p, usual, s, t.notCounted(&o, p))
	}
}

// wouldReject reports whether the policy only watches what it would refuse: requests whose key cannot be read.
func (t *trial) wouldReject(p part) bool {
	r := t.place.Rule
	ofKey := p.group != groupPath && p.group != groupScript
	return ofKey && r.OnEmptyKey == rule.EmptyKeyReject && (r.DryRun || r.Rollout != nil)
}

// effect is what becomes of a spelling, and what to write instead.
type effect struct{ text, advice string }

// otherQuota returns the effect of a spelling with another key.
func (t *trial) otherQuota(check *limiter.Check) effect {
	key := t.place.Rule.Texts.Key
	switch {
	case rule.IsAddressKey(check.Key):
		return effect{"has a second quota, that of its address", "write on_empty_key reject"}
	case strings.Contains(key, "http.request.uri}"), strings.Contains(key, "http.request.uri.query}"):
		return effect{"has a quota of its own", "write {path}, or {query.<name>}, in place of {uri} and {query}"}
	}
	return effect{"has a quota of its own", "write a key that goes by one value, such as {header.<name>}, {path} or {http.auth.user.id}"}
}

// notCounted returns the effect of a spelling that does not meet the policy.
func (t *trial) notCounted(o *outcome, p part) effect {
	if o.leavesOut() || p.group != groupPath && p.group != groupScript {
		return effect{"is not counted", "write on_empty_key reject"}
	}
	const strict = "; --strict-paths if the application answers 404"
	pattern := cmp.Or(t.base.pattern, t.base.path())
	if t.base.behind {
		return effect{"is not counted", "write match path " + pattern + " " + strings.TrimSuffix(pattern, "*") + ".*" + strict}
	}
	return effect{"is not counted", "write match path " + pattern + " within redis_ratelimit, in place of the path in front of it" + strict}
}

// find adds a finding, to the one of the same effect if there is one.
func (t *trial) find(p part, usual *pair, s *respelling, e effect) {
	text := usual.usual.method + " " + usual.usual.path()
	if p.group != groupPath && p.group != groupScript {
		_, text, _ = p.apply(usual.usual, usual.spelling, usual.spelling)
	}
	at := slices.IndexFunc(t.result.Findings, func(f Finding) bool { return f.Effect == e.text && f.Advice == e.advice })
	if at < 0 {
		t.result.Findings = append(t.result.Findings, Finding{Usual: text, Effect: e.text, Advice: e.advice})
		at = len(t.result.Findings) - 1
	}
	f := &t.result.Findings[at]
	if f.Usual == text && len(s.servers) > f.readers {
		f.Spelling, f.readers = display.Escape(s.shown), len(s.servers)
	}
	f.Times++
	for _, server := range s.servers {
		if !slices.Contains(f.Servers, server) {
			f.Servers = append(f.Servers, server)
		}
	}
}

// forgedAddress is what a client writes into X-Forwarded-For.
const forgedAddress = "192.0.2.66"

// playForged plays a request whose client has written an X-Forwarded-For, when its quota is used up.
func (t *trial) playForged(used *usedUp) {
	const forwarded = "X-Forwarded-For"
	proxy := t.place.Server.TrustedProxy
	if !proxy.IsValid() {
		forged := t.base.clone()
		if t.setters[forwarded] != "" {
			return
		}
		forged.header.Set(forwarded, forgedAddress)
		if o := t.send(forged, t.counted); o.check != nil && !o.isRefused() {
			t.result.Findings = append(t.result.Findings, Finding{
				Spelling: forwarded + ": " + forgedAddress, Usual: "the address of the client", Times: 1, Effect: "has a quota of its own",
				Advice: "clients write this header: write {client_ip}, and trusted_proxies with trusted_proxies_strict",
			})
		}
		return
	}
	behind := t.base.clone()
	for _, name := range t.place.Server.ClientHeaders {
		behind.header.Set(name, behind.client)
	}
	forged := behind.clone()
	behind.client = proxy.String()
	forged.client = proxy.String()
	forged.header.Set(forwarded, forgedAddress+", "+t.base.client)
	first, second := t.send(behind, t.counted), t.send(forged, t.counted)
	if first.isRefused() && first.check.Key == used.check.Key && second.check != nil && !second.isRefused() {
		t.result.Findings = append(t.result.Findings, Finding{
			Spelling: forwarded + ": " + forgedAddress + ", " + t.base.client, Usual: fmt.Sprintf("the client %s behind %s", t.base.client, proxy),
			Times: 1, Effect: "has a quota of its own",
			Servers: []string{"nginx ($proxy_add_x_forwarded_for)", "HAProxy (option forwardfor)", "Apache"},
			Advice:  "write trusted_proxies_strict, and trust all proxies of yours in front, such as those of a CDN",
		})
	}
}
