package redisratelimit

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/survey"
)

// serveUsed lists at most n keys that have used most, of one policy or of all, on this node or on all nodes.
func (a *App) serveUsed(r *http.Request, stores *storepool.Stores, n int) (any, bool, error) {
	query := r.URL.Query()
	policy := cmp.Or(query.Get("policy"), storepool.AllPolicies)
	nodes, failure := [][]storepool.PolicyUsage{a.usage(stores, policy)}, error(nil)
	switch query.Get("nodes") {
	case "":
	case "all":
		if stores.Redis == nil {
			break // there is no other
		}
		others, err := usageElsewhere(r, stores, policy, nodes[0])
		if errors.Is(err, survey.ErrBusy) {
			return nil, false, adminapi.Conflict("%v", err)
		}
		nodes, failure = append(nodes, others...), err
	default:
		return nil, false, adminapi.BadInput("nodes: use all, or leave it out for this node")
	}
	keys, since := storepool.SumUsage(nodes, n)
	report := adminapi.UsedReport{Since: routetrace.Seconds(since), Nodes: len(nodes), Keys: []adminapi.UsedEntry{}}
	for _, k := range keys {
		report.Keys = append(report.Keys, adminapi.UsedEntry{Policy: k.Policy, Key: display.EscapeKey(k.Key), Used: k.Units, Error: k.Error})
	}
	if failure != nil {
		report.Error = adminapi.UnavailableText(failure)
	}
	return report, failure != nil, nil
}

// usage returns what keys have used on this node, of the policies of this configuration.
func (a *App) usage(stores *storepool.Stores, policy string) []storepool.PolicyUsage {
	return slices.DeleteFunc(stores.Memory.Names.Usage(policy), func(p storepool.PolicyUsage) bool {
		_, found := a.registered[p.Policy]
		return !found
	})
}

// usageElsewhere asks the other nodes what keys have used there. A key that Redis has as a hash has its own text where this
// node knows the key.
func usageElsewhere(r *http.Request, stores *storepool.Stores, policy string, own []storepool.PolicyUsage) (nodes [][]storepool.PolicyUsage, err error) {
	inRedis := func(key string) string { return string(stores.Redis.Store.AppendClient(nil, limiter.AsEncoded(key))) }
	known := map[string]string{inRedis(""): ""}
	for _, p := range own {
		for _, k := range p.Keys {
			known[inRedis(k.Key)] = k.Key
		}
	}
	answers, err := stores.Redis.Survey.Ask(r.Context(), policy)
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

// pageUsed lists the keys that have used most on this node.
func (a *App) pageUsed(stores *storepool.Stores) adminapi.PageUsed {
	keys, _ := storepool.SumUsage([][]storepool.PolicyUsage{a.usage(stores, storepool.AllPolicies)}, pageKeys)
	used := adminapi.PageUsed{About: "Units on this node in the last five to ten minutes, denied or not.", Keys: []adminapi.UsedEntry{}}
	for _, k := range keys {
		used.Keys = append(used.Keys, adminapi.UsedEntry{Policy: k.Policy, Key: display.EscapeKey(k.Key), Used: k.Units, Error: k.Error})
	}
	return used
}
