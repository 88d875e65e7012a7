package adminserver

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// The number of keys that top lists.
const (
	defaultTop = 20
	maxTop     = 1000
)

// serveTop lists the keys that were denied most, or with by=used those that have used most, of one policy or of all.
func (s *Server) serveTop(
	ctx context.Context, question adminapi.TopQuestion, stores *storepool.Stores,
) (adminapi.TopAnswer, bool, error) {
	n := defaultTop
	if text := question.Most.Text; text != "" {
		parsed, err := strconv.Atoi(text)
		if err != nil || parsed < 1 || parsed > maxTop {
			return nil, false, adminapi.BadInput("n: use a number from 1 to %d", maxTop)
		}
		n = parsed
	}
	registered := s.Policies
	if name := question.Policy.Text; question.Policy.Given {
		one, err := s.registeredNamed(name)
		if err != nil {
			return nil, false, err
		}
		registered = options.Registry{name: one}
	}
	switch by := question.By.Text; {
	case by == "used":
		return s.serveUsed(ctx, &question, stores, n)
	case by != "" && by != "denied":
		return nil, false, adminapi.BadInput("by: use denied or used")
	case question.Nodes.Given:
		return nil, false, adminapi.BadInput("nodes: denials are counted by node; use it with by=used")
	}
	keys, since := topKeys(registered, n)
	report := adminapi.TopReport{Since: routetrace.Seconds(since), Keys: keys}
	s.addBans(ctx, stores, report.Keys)
	return report, false, nil
}

// topKeys lists the keys of policies that were denied most, at most n, and how far back the counts go.
func topKeys(policies options.Registry, n int) (keys []adminapi.TopEntry, since time.Duration) {
	keys = []adminapi.TopEntry{}
	for name, policy := range policies {
		denied, age := policy.Counters.Top.List()
		since = max(since, age)
		for _, k := range denied {
			keys = append(keys, adminapi.TopEntry{Policy: name, Key: k.Key, Denied: k.Count, Error: k.Error})
		}
	}
	slices.SortFunc(keys, func(a, b adminapi.TopEntry) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Key, b.Key))
	})
	keys = keys[:min(n, len(keys))]
	for i := range keys {
		keys[i].Key = display.EscapeKey(keys[i].Key)
	}
	return keys, since
}

// serveUsed lists at most n keys that have used most, of one policy or of all, on this node or on all nodes.
func (s *Server) serveUsed(
	ctx context.Context, question *adminapi.TopQuestion, stores *storepool.Stores, n int,
) (adminapi.TopAnswer, bool, error) {
	policy := cmp.Or(question.Policy.Text, storepool.AllPolicies)
	nodes, failure := [][]storepool.PolicyUsage{s.usage(stores, policy)}, error(nil)
	switch question.Nodes.Text {
	case "":
	case "all":
		if stores.Redis == nil {
			break // there is no other
		}
		others, err := s.usageElsewhere(ctx, stores, policy, nodes[0])
		if errors.Is(err, storepool.ErrSurveyBusy) {
			return nil, false, adminapi.Conflict("%v", err)
		}
		nodes, failure = append(nodes, others...), err
	default:
		return nil, false, adminapi.BadInput("nodes: use all, or leave it out for this node")
	}
	keys, since := mostUsed(nodes, n)
	report := adminapi.UsedReport{Since: routetrace.Seconds(since), Nodes: len(nodes), Keys: keys}
	if failure != nil {
		report.Error = adminapi.UnavailableText(failure)
	}
	return report, failure != nil, nil
}

// usage returns what keys have used on this node, of the policies of this configuration.
func (s *Server) usage(stores *storepool.Stores, policy string) []storepool.PolicyUsage {
	return slices.DeleteFunc(stores.Memory.Names.Usage(policy), func(p storepool.PolicyUsage) bool {
		_, found := s.Policies[p.Policy]
		return !found
	})
}

// mostUsed lists at most n keys that have used most on nodes, and how far back the counts go.
func mostUsed(nodes [][]storepool.PolicyUsage, n int) (keys []adminapi.UsedEntry, since time.Duration) {
	used, since := storepool.SumUsage(nodes, n)
	keys = []adminapi.UsedEntry{}
	for _, k := range used {
		keys = append(keys, adminapi.UsedEntry{Policy: k.Policy, Key: display.EscapeKey(k.Key), Used: k.Units, Error: k.Error})
	}
	return keys, since
}

// usageElsewhere asks the other nodes what keys have used there. A key that Redis has as a hash has its own text where this
// node knows the key.
func (s *Server) usageElsewhere(
	ctx context.Context, stores *storepool.Stores, policy string, own []storepool.PolicyUsage,
) (nodes [][]storepool.PolicyUsage, err error) {
	inRedis := func(key string) string { return string(stores.Redis.Store.AppendClient(nil, limiter.AsEncoded(key))) }
	known := map[string]string{inRedis(""): ""}
	for _, p := range own {
		for _, k := range p.Keys {
			known[inRedis(k.Key)] = k.Key
		}
	}
	if err := s.Stores.Overrides.Decides(ctx); err != nil {
		return nil, err
	}
	answers, err := stores.Redis.Survey.Ask(ctx, policy)
	for _, answer := range answers {
		usage, foreign := storepool.DecodeUsage(answer, func(inRedis string) string {
			if key, found := known[inRedis]; found {
				return key
			}
			return inRedis
		})
		if foreign == nil {
			nodes = append(nodes, usage)
		}
	}
	return nodes, err
}
