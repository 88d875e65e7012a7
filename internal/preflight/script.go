package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// checkPolicyName is the policy that a check counts under. Its window is a second, after which its keys
// are gone.
const checkPolicyName = "redis-ratelimit-check"

// grantAdvice is the advice where a script runs into rights that are missing.
const grantAdvice = "grant the rights that the check of permissions misses"

// scriptAdvice tells what to do about the kinds of errors by which Redis does not decide.
var scriptAdvice = map[string]string{
	"auth":        grantAdvice,
	"command":     "see whether Redis renames commands: rename-command in its configuration",
	"readonly":    "name the master's address, or use mode sentinel, which finds it",
	"oom":         "raise maxmemory in Redis: it is full",
	"misconf":     "see Redis's log: it cannot save its data, and refuses writes until it can",
	"noreplicas":  "see whether Redis's replicas run: min-replicas-to-write refuses writes without them",
	"loading":     "wait until Redis has loaded its data",
	"masterdown":  "see whether Redis's master runs",
	"clusterdown": "see CLUSTER INFO in Redis: some slots have no master",
	"timeout":     "see what keeps Redis busy: SLOWLOG GET in Redis",
}

// logAlgorithm is the one whose script takes commands of lists.
const logAlgorithm = "sliding_window_log"

// tryScripts has each algorithm decide on a share that this server has.
func (p *preflight) tryScripts(ctx context.Context, client redis.UniversalClient, s *checkedServer) {
	var slowest time.Duration
	algorithms, who := limiter.Algorithms(), "each algorithm"
	if !s.logs {
		algorithms = slices.DeleteFunc(algorithms, func(name string) bool { return name == logAlgorithm })
		who = "each algorithm but " + logAlgorithm
	}
	for _, algorithm := range algorithms {
		took, err := p.decide(ctx, client, s, algorithm)
		if err != nil {
			p.undecided(s, algorithm, err)
			return
		}
		slowest = max(slowest, took)
	}
	p.ok("script", s.address, who+" decides within "+humanize.Duration(slowest))
}

// undecided reports an algorithm that did not decide.
func (p *preflight) undecided(s *checkedServer, algorithm string, err error) {
	t := diagnose(err.Error())
	p.unasked = p.unasked || (t.advice != "" && !t.answered)
	advice := cmp.Or(s.scriptAdvice, scriptAdvice[limiter.Kind(err)], t.advice, "see whether this is a Redis, and whether it permits scripts")
	p.failed("script", s.address, algorithm+": "+err.Error(), advice)
}

// decide has an algorithm decide twice, and tells how long that took when the script was known.
func (p *preflight) decide(ctx context.Context, client redis.UniversalClient, s *checkedServer, algorithm string) (took time.Duration, err error) {
	policy, err := limiter.NewPolicy(limiter.Settings{Name: checkPolicyName, Algorithm: algorithm, Limit: 1000, Window: time.Second})
	if err != nil {
		return 0, err
	}
	// A store of its own, because the breaker of one that failed would keep the next algorithm from trying,
	// on the server's own client, which asks no other server and is needed afterwards.
	store := limiter.NewRedis(s.client, limiter.RedisOptions{Timeout: p.clientOptions().Timeout, KeyFormat: p.options.Naming})
	defer store.Release()
	key, err := keyAt(ctx, client, store, policy, s)
	if err != nil {
		return 0, err
	}
	checks := []limiter.Check{{Policy: policy, Key: key, Weight: 1}}
	for range 2 {
		sent := time.Now()
		if _, err := store.Decide(ctx, checks); err != nil {
			return 0, err
		}
		took = time.Since(sent)
	}
	return took, nil
}

// keyAt finds a client key whose share the server has: any, or on a Cluster one in its slots.
func keyAt(ctx context.Context, client redis.UniversalClient, store *limiter.Redis, policy *limiter.Policy, s *checkedServer) (string, error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return checkPolicyName, nil
	}
	for n := range 100_000 {
		key := strconv.Itoa(n)
		master, err := cluster.MasterForKey(ctx, store.RedisKey(policy, key))
		if err != nil {
			return "", err
		}
		if master.Options().Addr == s.address {
			return key, nil
		}
	}
	return "", fmt.Errorf("the master %s has no slots", s.address)
}
