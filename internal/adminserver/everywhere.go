package adminserver

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/overrides"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// serveOverride sets or removes an override, or lifts a ban.
func (s *Server) serveOverride(
	asked context.Context, question adminapi.OverrideRequest, stores *storepool.Stores,
) (report adminapi.OverrideReport, undecided bool, err error) {
	if question.Policy.Given {
		return s.serveOverrideOf(asked, question, stores)
	}
	report, err = s.serveEverywhere(asked, &question, stores)
	return report, false, err
}

// serveEverywhere blocks an address or a range for all policies, or ends such a block.
func (s *Server) serveEverywhere(
	asked context.Context, question *adminapi.OverrideRequest, stores *storepool.Stores,
) (report adminapi.OverrideReport, err error) {
	blocked, err := checkEverywhere(question)
	if err != nil {
		return report, err
	}
	ctx, cancel := context.WithTimeout(asked, dial.ConnectBudget)
	defer cancel()
	target := overrides.Target{Range: blocked}
	if question.Remove {
		err = s.removeEverywhere(ctx, target, &report)
		return report, err
	}
	lasts, err := question.Lasts()
	if err != nil {
		return report, err
	}
	if err = s.put(ctx, target, overrides.Spec{Action: overrides.Block, Note: question.Note}, lasts, &report); err != nil {
		return report, overrideError(err)
	}
	s.tellReach(&report)
	addHint(&report, networkHint(blocked))
	if blocked.Addr().IsPrivate() {
		addHint(&report, "all clients behind a proxy that is not trusted have its address")
	}
	if stores.Options != nil && stores.Options.Naming.Secret != "" {
		addHint(&report, "what is blocked lies in redis in the clear, although hash_keys hides keys")
	}
	return report, nil
}

// removeEverywhere ends a block for all policies.
func (s *Server) removeEverywhere(ctx context.Context, target overrides.Target, report *adminapi.OverrideReport) error {
	err := s.removeOverride(ctx, target, target, report)
	if errors.Is(err, overrides.ErrAbsent) {
		return adminapi.Absent("%v for all policies; one of a single policy needs its name, and 'overrides' lists all", err)
	}
	if wider, _ := s.Stores.Overrides.BlockOfNetwork(target.Range); err == nil && wider != nil {
		addHint(report, "still blocked, by "+wider.Range.String())
	}
	return overrideError(err)
}

// checkEverywhere refuses what no override without a policy can be, and returns the addresses that are meant.
func checkEverywhere(o *adminapi.OverrideRequest) (blocked netip.Prefix, err error) {
	switch {
	case o.All && o.Block:
		return blocked, adminapi.BadInput("all, block: without policy this would refuse everyone; name the policy")
	case o.All || !o.Block && !o.Remove:
		return blocked, adminapi.BadInput("policy is missing; without it only block of an address or a range works")
	}
	text, err := checkOverride(o)
	if err != nil {
		return blocked, err
	}
	if o.Range.Given {
		blocked, err = parseRange(o.Range.Text)
	} else if blocked, err = adminapi.AddressOf(text); err != nil {
		err = adminapi.BadInput("key: without policy %v", err)
	}
	if err != nil || o.Remove || o.Force {
		return blocked, err
	}
	if err = checkWidth(blocked); err == nil && blocked.Contains(o.Asker) {
		err = adminapi.BadInput("the address that asks is among these; give force to block it all the same")
	}
	return blocked, err
}

// tellReach says how many directives refuse all requests of what is blocked for all policies.
func (s *Server) tellReach(report *adminapi.OverrideReport) {
	report.Directives = new(len(routetrace.LimitersOfWholeSites(s.Routes())))
	if len(s.Rules) > 0 && !slices.ContainsFunc(s.Rules, func(s *rule.Set) bool { return !s.IsDryRun() }) {
		addHint(report, "all policies are dry runs: no request is refused")
	}
}

// networks are those that clients of IPv6 usually have as a whole.
var networks = rule.Prefixes{IPv4: 32, IPv6: 64}

// networkHint names the network of one address of IPv6, whose client has many more; empty for anything else, such as an address
// that contains one of IPv4.
func networkHint(blocked netip.Prefix) string {
	if network := networks.Shorten(blocked.Addr().String()); blocked.IsSingleIP() && strings.Contains(network, "/") {
		return "its network is " + network + "; write --range to block it"
	}
	return ""
}
