package redisratelimit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddyfileopt"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/challenge"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/description"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// This file has the options that are objects in JSON, and what the rows of policyOptions do with them.

// Common are the options that a handler may have for all its policies that leave them out.
type Common struct {
	// How many leading bits of an IPv4 address count, from 0 to 32, where `{http.vars.client_ip}`
	// or `{http.request.remote.host}` stands in a key. Default: 32.
	IPv4Prefix *int `json:"ipv4_prefix,omitempty"`

	// The same for IPv6, from 0 to 128. Default: 64, because a single client commonly has a whole
	// /64 of addresses.
	IPv6Prefix *int `json:"ipv6_prefix,omitempty"`

	// What is done when a placeholder of a key is empty, or a header, cookie or query parameter that
	// stands several times in the request: `client_ip` takes the client's address instead (marked, so
	// that no header value can be it), `skip` leaves the policy out, or answers 400 where the value is
	// repeated, `reject` answers 400. It belongs to this handler and not to the policy. Default:
	// `client_ip`.
	OnEmptyKey string `json:"on_empty_key,omitempty"`

	// Whether the policy only pretends: it decides, charges, counts and logs by itself, and never
	// denies nor shows in headers. Of a handler it holds for all its policies. Default: false.
	DryRun bool `json:"dry_run,omitempty"`
}

var commonDefaults = Common{IPv4Prefix: new(32), IPv6Prefix: new(64), OnEmptyKey: string(rule.EmptyKeyClientIP)}

// inherit sets options that are left out to those of others.
func (c *Common) inherit(others *Common) {
	c.IPv4Prefix, c.IPv6Prefix = cmp.Or(c.IPv4Prefix, others.IPv4Prefix), cmp.Or(c.IPv6Prefix, others.IPv6Prefix)
	c.OnEmptyKey, c.DryRun = cmp.Or(c.OnEmptyKey, others.OnEmptyKey), c.DryRun || others.DryRun
}

func (c *Common) prefixes() rule.Prefixes {
	return rule.Prefixes{IPv4: *c.IPv4Prefix, IPv6: *c.IPv6Prefix}
}

// The lengths of addresses.
const (
	maxIPv4Prefix = 32
	maxIPv6Prefix = 128
)

// checkPrefix refuses a number of bits that no address has.
func checkPrefix(option string, bits, most int) error {
	if bits < 0 || bits > most {
		return fmt.Errorf("%s %d: use a number from 0 to %d", option, bits, most)
	}
	return nil
}

// unless returns a value that is not the default, nil for the default.
func unless[T comparable](value, fallback *T) *T {
	if *value == *fallback {
		return nil
	}
	return value
}

// Ban says which clients a policy refuses for a while, whatever their count: those that are denied so
// many times within one window.
type Ban struct {
	// How long the first ban of a client lasts, the second, and so on; the last one goes on. From 1s to
	// 365d, in ascending order, at most 16. A client's bans are forgotten the longest duration after
	// its last one has ended. Required.
	Durations []caddy.Duration `json:"durations,omitempty"`

	// How many denials within a window are an offense that bans, from 1 to 1000. Default: 1.
	After int `json:"after,omitempty"`
}

// checkBan refuses a ban that does not last.
func (p *Policy) checkBan() error {
	if p.Ban != nil && len(p.Ban.Durations) == 0 {
		return errors.New("ban: no duration; write one or more, such as ban 30s 5m 1h")
	}
	return nil
}

func (p *Policy) settleBan(s *limiter.Settings) {
	if p.Ban == nil {
		return
	}
	s.BanAfter = p.Ban.After
	for _, d := range p.Ban.Durations {
		s.Ban = append(s.Ban, time.Duration(d))
	}
}

func (p *Policy) tellBan(t *telling) {
	if p.Ban == nil {
		return
	}
	t.policy.Ban = &description.Ban{After: max(1, p.Ban.After)}
	for _, d := range p.Ban.Durations {
		t.policy.Ban.Durations = append(t.policy.Ban.Durations, description.Seconds(d))
	}
}

// Challenge gives each client key a number of further quotas, the passes. A browser that has waited takes from one of
// them for an hour. Beside `reserve` there are none: who has waited may use what is reserved.
type Challenge struct {
	// How many quotas a key has beside its own, from 1 to 1000. Not beside `reserve`. Default: 10.
	Passes int `json:"passes,omitempty"`

	// The limit of each of them, from that of the policy. Not beside a placeholder for limit or burst, nor beside `reserve`.
	// Default: that of the policy.
	Limit int64 `json:"limit,omitempty"`

	// The file of the page on which browsers wait: HTML of at most 64 KiB with `{challenge.link}`, where the page leads to, and
	// `{challenge.stylesheet}`, a style sheet that it has to load, once each. It is read when the configuration is loaded, and
	// belongs to this handler and not to the policy. Default: a page with a sentence in English, German, Spanish or French.
	Page string `json:"page,omitempty"`
}

// readPage reads the page; nil: the built-in one. A challenge that is nil has none.
func (c *Challenge) readPage() (*challenge.Page, error) {
	if c == nil || c.Page == "" {
		return nil, nil //nolint:nilnil // the built-in page
	}
	text, err := secretfile.Read(c.Page, challenge.MaxPage+1)
	if err != nil {
		return nil, fmt.Errorf("challenge: page %s: %w", c.Page, err)
	}
	page, err := challenge.ParsePage(string(text))
	if err != nil {
		return nil, fmt.Errorf("challenge: page %s %w", c.Page, err)
	}
	return page, nil
}

// fillChallenge sets how many passes a key has, if there are any.
func (p *Policy) fillChallenge() {
	if p.hasPasses() {
		p.Challenge.Passes = cmp.Or(p.Challenge.Passes, defaultPasses)
	}
}

func (p *Policy) tellChallenge(t *telling) {
	if c := p.passes(); c.Passes > 0 {
		t.policy.Challenge = new(description.Challenge(c))
	}
	if t.handler.OpensReserve = p.opens(); p.Challenge != nil {
		t.handler.ChallengePage = p.Challenge.Page
	}
}

// hasPasses reports whether browsers that have waited have quotas of their own.
func (p *Policy) hasPasses() bool { return p.challenges() && p.Reserve == "" }

// opens reports whether browsers that have waited may use what is reserved.
func (p *Policy) opens() bool { return p.challenges() && p.Reserve != "" }

// passes returns the quotas of browsers that have waited; the zero value for none.
func (p *Policy) passes() rule.Challenge {
	if !p.hasPasses() {
		return rule.Challenge{}
	}
	return rule.Challenge{Passes: p.Challenge.Passes, Limit: p.Challenge.Limit}
}

// checkChallenge refuses an invalid challenge, and one that cannot be beside the policy's key, limit and burst.
func (p *Policy) checkChallenge(policy *limiter.Policy) error {
	c := p.passes()
	switch {
	case p.opens():
		return p.checkOpens()
	case p.Challenge == nil:
		return nil
	case c.Passes < 1 || c.Passes > rule.MaxPasses:
		return fmt.Errorf("challenge %d: use a number of passes from 1 to %d", c.Passes, rule.MaxPasses)
	case p.parsed.Key.IsFixed():
		return fmt.Errorf("challenge: all clients share the key %s, and so its passes; use a key with a placeholder such as {client_ip}", p.Key)
	case c.Limit != 0 && p.isDynamic():
		return errors.New("challenge: a pass cannot have a limit beside a placeholder for limit or burst; leave the limit of the pass out")
	case c.Limit != 0 && c.Limit < policy.Limit():
		return fmt.Errorf("challenge: a pass of %d would allow less than the limit of %d; use at least that, or leave it out",
			c.Limit, policy.Limit())
	}
	if c.Limit != 0 {
		if _, err := policy.WithLimit(c.Limit, p.Burst); err != nil {
			return fmt.Errorf("challenge: a pass of %d: %w", c.Limit, caddyfileopt.NameFields(err))
		}
	}
	return nil
}

// checkOpens refuses numbers of passes beside a reserve, and a reserve of nothing.
func (p *Policy) checkOpens() error {
	switch c := p.Challenge; {
	case c.Limit != 0:
		return fmt.Errorf("challenge %d %d, reserve: a pass has no quota here; write challenge alone", c.Passes, c.Limit)
	case c.Passes != 0:
		return fmt.Errorf("challenge %d, reserve: a pass has no quota here; write challenge alone", c.Passes)
	case p.parsed.Reserve == rule.Reserve{}:
		return errors.New("challenge, reserve 0: nothing is reserved that a pass could open; leave reserve out, or reserve more")
	}
	return nil
}

// Wait says which requests wait for others of their key to end.
type Wait struct {
	// How long a request waits at most, from 1ms to 10m. Required.
	Longest caddy.Duration `json:"longest,omitempty"`

	// How many requests of a key wait on a node at once, from 1 to 65,536. Default: 100.
	Most int `json:"most,omitempty"`

	// Text with placeholders by whose values turns go round: a value with a thousand waiting requests delays one with a
	// single request by no more than a round. If no more may wait, the value with the most loses its last. Default: turns
	// go by arrival.
	By string `json:"by,omitempty"`
}

// The bounds of waits.
const (
	minWait    = time.Millisecond
	maxWait    = 10 * time.Minute
	waitBounds = "a duration from 1ms to 10m"
)

// check refuses an invalid wait. Nil is none.
func (w *Wait) check() error {
	switch {
	case w == nil:
		return nil
	case time.Duration(w.Longest) < minWait || time.Duration(w.Longest) > maxWait:
		return fmt.Errorf("wait %v: use %s", time.Duration(w.Longest), waitBounds)
	case w.Most < 1 || w.Most > waiting.MostWaiting:
		return fmt.Errorf("wait: %d waiting; use a number from 1 to %d", w.Most, waiting.MostWaiting)
	}
	return nil
}

// parse returns the wait of a rule; nil: requests do not wait.
func (w *Wait) parse(prefixes rule.Prefixes) (parsed rule.Wait, err error) {
	if w == nil {
		return parsed, nil
	}
	parsed = rule.Wait{Longest: time.Duration(w.Longest), Most: w.Most}
	if w.By != "" {
		parsed.By, err = rule.ParseTurns(w.By, prefixes)
	}
	return parsed, err
}

func (p *Policy) tellWait(t *telling) {
	if w := p.Wait; w != nil {
		t.handler.Wait = &description.Wait{Longest: description.Seconds(w.Longest), Most: w.Most, By: w.By}
	}
}

// Reserve is a number of units, or percent of a capacity. In JSON units may be a number.
type Reserve string

// UnmarshalJSON implements [json.Unmarshaler].
func (r *Reserve) UnmarshalJSON(text []byte) error {
	var units json.Number
	if json.Unmarshal(text, &units) == nil && len(text) > 0 && text[0] != '"' {
		*r = Reserve(units)
		return nil
	}
	return json.Unmarshal(text, (*string)(r))
}

// countIfText returns the responses that count, as in a Caddyfile; empty for all.
func countIfText(counts *caddyhttp.ResponseMatcher) string {
	if counts == nil {
		return ""
	}
	var parts []string
	if codes := counts.StatusCode; len(codes) > 0 {
		words := []string{"status"}
		for _, code := range codes {
			class := ""
			if code < 10 {
				class = "xx"
			}
			words = append(words, strconv.Itoa(code)+class)
		}
		parts = append(parts, strings.Join(words, " "))
	}
	for _, name := range slices.Sorted(maps.Keys(counts.Headers)) {
		if values := counts.Headers[name]; values == nil {
			parts = append(parts, "header !"+name)
		} else {
			parts = append(parts, "header "+name+" "+strings.Join(values, " "))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "any response")
}

// checkUnread refuses on_unread where no matcher asks for the body.
func (p *Policy) checkUnread(*limiter.Policy) error {
	if p.OnUnread != "" && len(p.parsed.MatchBody)+len(p.parsed.CountBody) == 0 {
		return errors.New("on_unread: match asks for no value of the body, such as match vars {json.method} tools/call; leave it out")
	}
	return nil
}

// checkRawKey refuses raw_key for a key without spellings.
func (p *Policy) checkRawKey(*limiter.Policy) error {
	if p.RawKey && (p.parsed.Key.IsFixed() || p.parsed.Key.IsAddress()) {
		return errors.New("raw_key: the key has no value that has several spellings, such as {header.X-Api-Key} or {path}; leave it out")
	}
	return nil
}
