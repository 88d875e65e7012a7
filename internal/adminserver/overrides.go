package adminserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// serveOverrides lists the overrides of all policies, also of those that this configuration does not have.
func (s *Server) serveOverrides(
	ctx context.Context, _ adminapi.NoQuestion, _ *storepool.Stores,
) (adminapi.OverridesReport, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, dial.ConnectBudget)
	defer cancel()
	entries, err := s.Stores.Overrides.List(ctx)
	report := adminapi.OverridesReport{Overrides: make([]adminapi.OverrideEntry, 0, len(entries))}
	for _, e := range entries {
		report.Overrides = append(report.Overrides, *routetrace.Override(e))
	}
	if err != nil {
		report.Error = adminapi.UnavailableText(err)
	}
	return report, err != nil, nil
}

// serveOverrideOf sets or removes an override of a policy, or lifts a ban.
func (s *Server) serveOverrideOf(
	asked context.Context, question adminapi.OverrideRequest, stores *storepool.Stores,
) (report adminapi.OverrideReport, undecided bool, err error) {
	text, err := checkOverride(&question)
	if err != nil {
		return report, false, err
	}
	policy := question.Policy.Text
	var key *limiter.EncodedKey // nil: all, or a range
	if question.Key.Given {
		key = new(limiter.AsEncoded(text))
	}
	registered, err := s.registeredNamed(policy)
	known := err == nil
	if !known && (!question.Remove || !s.Stores.Overrides.Has(policy)) { // one of a policy that is gone can be removed
		return report, false, err
	}
	ctx, cancel := context.WithTimeout(asked, dial.ConnectBudget)
	defer cancel()
	target := overrides.Target{Policy: policy}
	if question.Range.Given {
		if target.Range, err = s.checkRange(&question, known); err != nil {
			return report, false, err
		}
		if question.Block && stores.Options != nil && stores.Options.Naming.Secret != "" {
			addHint(&report, "the range lies in redis in the clear, although hash_keys hides keys")
		}
	}
	named := target
	if key != nil {
		named = s.Stores.Overrides.Target(policy, *key)
		if known {
			meant, hint := s.meant(&registered, text)
			if addHint(&report, hint); meant != *key {
				*key, question.Key.Text = meant, display.EscapeKey(meant.String())
			}
		}
		target = s.Stores.Overrides.Target(policy, *key)
		addHint(&report, starHint(text))
		if !question.Remove && !question.Force {
			if err := s.checkPossible(&registered, stores, *key); err != nil {
				return report, false, err
			}
		}
		if (question.Block || question.Limit != nil) && s.enforcesNowhere(policy, *key) {
			addHint(&report, "the policy is a dry run for this key: no request is refused")
		}
		if !question.Block && known {
			addHint(&report, s.stillBlocked(policy, *key))
		}
	}
	switch {
	case question.Unban:
		err = unban(asked, stores, registered.Policy, key, &report)
		if err != nil && report.Unbanned != nil && *report.Unbanned > 0 { // in a part of Redis
			report.Error = adminapi.UnavailableText(err)
			return report, true, nil
		}
	case question.Remove:
		err = s.removeOverride(ctx, named, target, &report)
		if errors.Is(err, overrides.ErrAbsent) && key != nil && known && s.stillBlocked(policy, *key) != "" {
			return report, false, adminapi.Absent("%v of this policy, but a block for all policies: remove that one without a policy", err)
		}
	default:
		err = s.putOverride(ctx, registered, target, &question, &report)
	}
	return report, false, overrideError(err)
}

// holdsHere says that one node alone does what was asked, and why.
func holdsHere(report *adminapi.OverrideReport, reason error) {
	report.NodeOnly = true
	addHint(report, nodeOnlyHint(reason))
}

// nodeOnlyHint is the hint of what one node does alone, for the reason why Redis does not.
func nodeOnlyHint(reason error) string {
	what := "redis is away"
	if redis.Answered(reason) {
		what = "redis refuses (" + adminapi.UnavailableText(reason) + ")"
	}
	return what + ": this holds on this node alone, until redis decides again; repeat it on other nodes, and then once more"
}

// addHint adds a sentence to the hint of an answer.
func addHint(report *adminapi.OverrideReport, hint string) {
	report.Hint = joinHints(report.Hint, hint)
}

// joinHints makes one hint of two, which may be empty.
func joinHints(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "; " + second
}

// checkPossible refuses a key that no request of a policy can have. HMACs, which lists show, are let through. The error quotes
// no key, because Caddy logs it.
func (s *Server) checkPossible(registered *options.Registered, stores *storepool.Stores, key limiter.EncodedKey) error {
	if stores.Redis != nil && stores.Redis.Store.MayBeHMAC(key) {
		return nil
	}
	policy, address := registered.Policy.Name(), registered.Identity.Shorten(key.String()) != key.String()
	var templates []string
	for _, set := range s.Rules {
		for i := range set.Rules {
			r := &set.Rules[i]
			if r.Policy.Name() != policy {
				continue
			}
			if r.CanYield(key) {
				return nil
			}
			if text := cmp.Or(r.Texts.Key, "{client_ip}"); !slices.Contains(templates, text) {
				templates = append(templates, text)
			}
		}
	}
	switch {
	case len(templates) == 0: // no handler uses the policy
		return nil
	case address && s.hasAddressKeys(policy):
		return adminapi.BadInput("key: addresses count by their network in policy %q, IPv4 by /%d and IPv6 by /%d: "+
			"give the network of this one, "+
			"whose other clients it concerns too, or force to set it for a key that no request has",
			policy, registered.Identity.IPv4, registered.Identity.IPv6)
	}
	literal := ""
	if strings.Contains(key.String(), "*") {
		literal = ". A star is literal, and no pattern"
	}
	return adminapi.BadInput("key: no request of policy %q can have it; its key is %s%s. Copy the key from top or explain, "+
		"or give force to set it all the same", policy, strings.Join(templates, " or "), literal)
}

// The widest ranges that are blocked without force, in bits.
const (
	widestIPv4 = 8
	widestIPv6 = 16
)

// parseRange reads the range of an override.
func parseRange(text string) (netip.Prefix, error) {
	blocked, err := rule.ParseRange(text)
	if err != nil {
		return blocked, adminapi.BadInput("range: use addresses in CIDR form such as 203.0.113.0/24 or 2001:db8::/32, or one address")
	}
	return blocked, nil
}

// checkRange reads the range of an override, of a policy that may be gone.
func (s *Server) checkRange(o *adminapi.OverrideRequest, known bool) (netip.Prefix, error) {
	blocked, err := parseRange(o.Range.Text)
	switch {
	case err != nil || o.Remove:
		return blocked, err
	case known && !s.hasAddressInKeys(o.Policy.Text):
		return blocked, adminapi.BadInput("range: the key of policy %q has no address of a client, so that a range would block nothing; "+
			"use a policy by {client_ip}", o.Policy.Text)
	case !o.Force:
		return blocked, checkWidth(blocked)
	}
	return blocked, nil
}

// checkWidth refuses a range that is hardly meant.
func checkWidth(blocked netip.Prefix) error {
	widest := widestIPv4
	if blocked.Addr().Is6() {
		widest = widestIPv6
	}
	if blocked.Bits() < widest {
		return adminapi.BadInput("range: /%d is a large part of the internet; give force to block it all the same", blocked.Bits())
	}
	return nil
}

// hasAddressInKeys reports whether a client's address is a part of a policy's keys anywhere.
func (s *Server) hasAddressInKeys(policy string) bool {
	for _, set := range s.Rules {
		for i := range set.Rules {
			if r := &set.Rules[i]; r.Policy.Name() == policy && r.Key.HasAddress() {
				return true
			}
		}
	}
	return false
}

// overrideOfKey returns the override that applies to a key, and a hint if a part of its addresses is blocked.
func (s *Server) overrideOfKey(policy string, key limiter.EncodedKey) (entry *overrides.Entry, hint string) {
	for _, set := range s.Rules {
		for i := range set.Rules {
			r := &set.Rules[i]
			if r.Policy.Name() != policy || !r.CanYield(key) && !rule.IsAddressKey(key) {
				continue
			}
			entry, part := r.OverrideOfKey(s.Stores.Overrides, key)
			if part != nil {
				hint = "some addresses of this key are blocked, by the range " + part.Range.String()
			}
			return entry, hint
		}
	}
	entry, _ = s.Stores.Overrides.Find(policy, key)
	return entry, ""
}

// removeOverride ends an override by its name, which may be from when the policy had other keys, or by the key that is
// meant. While Redis does not decide, or has none, it ends those of this node alone.
func (s *Server) removeOverride(ctx context.Context, named, meant overrides.Target, report *adminapi.OverrideReport) error {
	err := s.Stores.Overrides.Remove(ctx, named)
	if errors.Is(err, overrides.ErrAbsent) && meant != named {
		err = s.Stores.Overrides.Remove(ctx, meant)
	}
	undecided := errors.Is(err, limiter.ErrUndecided)
	if (undecided || errors.Is(err, overrides.ErrAbsent)) && (s.Stores.Overrides.RemoveOnNode(named) || s.Stores.Overrides.RemoveOnNode(meant)) {
		if undecided {
			addHint(report, nodeOnlyHint(err))
		}
		report.NodeOnly, err = true, nil
	}
	report.Removed = err == nil
	return err
}

// checkOverride refuses what no override can be, and returns the text of the client's key; empty for all.
func checkOverride(o *adminapi.OverrideRequest) (key string, err error) {
	actions := o.Actions()
	switch {
	case o.Policy.Given && o.Policy.Text == "":
		return "", adminapi.BadInput("policy: name one, or leave it out to block an address for all policies")
	case howMany(o.Key.Given, o.All, o.Range.Given) != 1:
		return "", adminapi.BadInput("key, range, all: give the key of one client, a range of addresses, " +
			"or all as true for all " +
			"clients without an override of their own")
	case len(actions) != 1:
		return "", adminapi.BadInput("use one of limit, block, exempt, unban and remove; there are %d", len(actions))
	case o.Range.Given && !o.Block && !o.Remove:
		return "", adminapi.BadInput("range: a range of addresses can be blocked, and removed; use block, or give the key of one client")
	case o.Burst != nil && o.Limit == nil:
		return "", adminapi.BadInput("burst: give the limit too")
	case o.For.Given && (o.Unban || o.Remove):
		return "", adminapi.BadInput("for: %s takes effect at once; leave it out", actions[0])
	case o.Note != "" && (o.Unban || o.Remove):
		return "", adminapi.BadInput("note: %s keeps none; leave it out", actions[0])
	case len(o.Note) > overrides.MaxNote:
		return "", adminapi.BadInput("note: has %d bytes; use at most %d", len(o.Note), overrides.MaxNote)
	case o.Limit != nil && *o.Limit < 1:
		return "", adminapi.BadInput("limit %d: use a whole number from 1, or block", *o.Limit)
	case o.Burst != nil && *o.Burst < 1:
		return "", adminapi.BadInput("burst %d: use a whole number from 1", *o.Burst)
	case !o.Key.Given:
		return "", nil
	}
	text, err := display.ParseKey(o.Key.Text)
	if err != nil {
		return "", adminapi.BadInput("%v", err)
	}
	if client, _, isPass := rule.CutPass(limiter.AsEncoded(text)); isPass {
		return "", adminapi.BadInput("key: an override holds for a client and its passes; give the key of the client, %s",
			display.EscapeKey(client.String()))
	}
	return text, nil
}

// putOverride sets an override of a policy.
func (s *Server) putOverride(
	ctx context.Context, registered options.Registered, target overrides.Target,
	o *adminapi.OverrideRequest,
	report *adminapi.OverrideReport,
) error {
	lasts, err := o.Lasts()
	if err != nil {
		return err
	}
	what := overrides.Spec{Note: o.Note}
	switch {
	case o.Block:
		what.Action = overrides.Block
	case o.Exempt:
		what.Action = overrides.Exempt
	default:
		what.Action, what.Limit = overrides.Limit, *o.Limit
		if o.Burst != nil {
			what.Burst = *o.Burst
		}
		changed, err := what.WithLimit(registered.Policy)
		if err != nil {
			return limitError(registered.Policy, err)
		}
		if burst := changed.Capacity(); changed.IsBucket() && what.Burst == 0 && burst != what.Limit {
			addHint(report, fmt.Sprintf("the burst stays %d, the most units at once; burst changes it", burst))
		}
		if registered.Policy.Bans() {
			addHint(report, "a ban goes on; unban lifts it")
		}
	}
	if err = s.put(ctx, target, what, lasts, report); err == nil && o.Key.Given {
		report.Key = &o.Key.Text // in clear also where overrides hold HMACs
	}
	return err
}

// put sets an override. While Redis does not decide, or if it refuses them, blocks and exemptions apply on this node alone.
func (s *Server) put(
	ctx context.Context, target overrides.Target, what overrides.Spec, lasts time.Duration, report *adminapi.OverrideReport,
) error {
	e, err := s.Stores.Overrides.Put(ctx, target, what, lasts)
	if errors.Is(err, limiter.ErrUndecided) && what.Action != overrides.Limit {
		addHint(report, nodeOnlyHint(err))
		e, err = s.Stores.Overrides.PutOnNode(target, what, lasts)
	}
	if err != nil {
		return err
	}
	report.OverrideEntry, report.NodeOnly = routetrace.Override(e), e.NodeOnly
	return nil
}

// limitError says what is wrong with the limit of an override, and which is the largest possible one.
func limitError(p *limiter.Policy, err error) error {
	text := options.NameFields(err).Error()
	if strings.HasPrefix(text, "limit") || strings.HasPrefix(text, "burst") && p.IsBucket() {
		return adminapi.BadInput("%s; the largest that policy %q takes is %d", text, p.Name(), p.LargestLimit())
	}
	return adminapi.BadInput("%s", text)
}

// overrideError gives the errors of a change their status.
func overrideError(err error) error {
	switch {
	case errors.Is(err, overrides.ErrAbsent):
		return adminapi.Absent("%v; 'overrides' lists all", err)
	case errors.Is(err, overrides.ErrFull), errors.Is(err, overrides.ErrManyRanges):
		return adminapi.Conflict("%v", err)
	case errors.Is(err, limiter.ErrUndecided):
		return adminapi.Unavailable(err)
	}
	return err
}

// stillBlocked returns a hint where a block for all policies goes before what is asked for of a key; empty: none does.
func (s *Server) stillBlocked(policy string, key limiter.EncodedKey) string {
	client, _, _ := rule.CutPass(key)
	if e, _ := s.overrideOfKey(policy, client); e != nil && e.Everywhere() {
		return "a block for all policies goes on, of " + display.EscapeKey(e.Range.String()) + "; override with remove, without a policy, ends it"
	}
	return ""
}

// blockHint returns a hint where an override blocks a key, whatever is left of its quota; empty: none does.
func (s *Server) blockHint(policy string, key limiter.EncodedKey) string {
	if everywhere := s.stillBlocked(policy, key); everywhere != "" {
		return everywhere
	}
	client, _, _ := rule.CutPass(key)
	if e, _ := s.overrideOfKey(policy, client); e != nil && e.Action == overrides.Block {
		return "an override goes on to block this key; override with remove ends it"
	}
	return ""
}

// starHint says that a star is no pattern; empty for a key without one.
func starHint(key string) string {
	if strings.Contains(key, "*") {
		return "the star is literal: this is one key, and no pattern"
	}
	return ""
}

// howMany counts what is true.
func howMany(conditions ...bool) (n int64) {
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}
