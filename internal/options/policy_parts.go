package options

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

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/challenge"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/waiting"
)

// This file has what the rows of policyOptions do with the options that are objects in JSON.

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
	t.policy.Ban = &display.Ban{After: max(1, p.Ban.After)}
	for _, d := range p.Ban.Durations {
		t.policy.Ban.Durations = append(t.policy.Ban.Durations, display.DurationSeconds(d))
	}
}

// ReadPage reads the page; nil: the built-in one. A challenge that is nil has none.
func (c *Challenge) ReadPage() (*challenge.Page, error) {
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
		t.policy.Challenge = new(display.Challenge(c))
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
			return fmt.Errorf("challenge: a pass of %d: %w", c.Limit, NameFields(err))
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
		t.handler.Wait = &display.Wait{Longest: display.DurationSeconds(w.Longest), Most: w.Most, By: w.By}
	}
}

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
