package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// checkPolicyName is the policy that the checks count under. Its window is a second, after which its keys
// expire.
const checkPolicyName = "redis-ratelimit-check"

// grantAdvice is the advice for a script that fails for lack of permissions.
const grantAdvice = "grant the rights that the check of permissions lists"

// scriptAdvice is the advice for each kind of error of a script.
var scriptAdvice = map[string]string{
	"auth":         grantAdvice,
	"command":      "see whether Redis renames commands: rename-command in its configuration",
	"readonly":     "set the address of the master, or use mode sentinel, which finds it",
	"oom":          "raise maxmemory in Redis: it is full",
	"misconf":      "see the log of Redis: it cannot save its data, and refuses writes until it can",
	"noreplicas":   "check whether the replicas of Redis run: min-replicas-to-write refuses writes without them",
	"loading":      "wait until Redis has loaded its data",
	"masterdown":   "check whether the master of Redis runs",
	"busy":         "wait for the end of the script that Redis runs, or end it with SCRIPT KILL",
	"clusterdown":  "see CLUSTER INFO in Redis: some slots have no master",
	"incompatible": newerServer,
	"timeout":      "find out what keeps Redis busy: SLOWLOG GET in Redis",
}

// logAlgorithm is the algorithm whose script uses commands for lists.
const logAlgorithm = "sliding_window_log"

// maxConcurrent is what policies of running requests are called among the algorithms.
const maxConcurrent = "max_concurrent"

// wait is what those are called whose requests wait.
const wait = "wait"

// tryScripts runs a decision of each algorithm, and of running requests, on a key of this server. Those with
// permissions of their own are tried if they are used.
func (p *preflight) tryScripts(ctx context.Context, client goredis.UniversalClient, s *checkedServer) {
	var slowest time.Duration
	for _, algorithm := range append(limiter.Algorithms(), maxConcurrent, wait) {
		runs := algorithm == maxConcurrent || algorithm == wait
		if algorithm == logAlgorithm && !p.options.Logs || runs && !p.options.Runs {
			continue
		}
		took, err := p.decide(ctx, client, s, algorithm)
		if err != nil {
			p.undecided(s, algorithm, err)
			return
		}
		slowest = max(slowest, took)
	}
	s.decides = true
	p.ok("script", s.address, "each algorithm that was tried decides within "+display.Duration(slowest))
	if p.options.Client.Mode != dial.Cluster {
		p.trySeveralKeys(ctx, s)
	}
}

// trySeveralKeys runs a script with keys of two clients, as requests share script runs. Behind the address of
// one server there may be a proxy, which forwards a script to the server that has its keys.
func (p *preflight) trySeveralKeys(ctx context.Context, s *checkedServer) {
	err := s.client.Eval(ctx, "return 1", []string{p.prefixed(probeKey), p.prefixed("{" + checkPolicyName + "-2}:probe")}).Err()
	var reply goredis.Error
	switch {
	case !errors.As(err, &reply): // also no error; the other checks report those of the connection
	case refusedCommand.MatchString(err.Error()): // the check of permissions reports it
	case isForbidden(err):
		p.failed("script", s.address, "keys of two clients in one script: "+err.Error(), p.grant(p.keyRight()))
	case strings.Contains(err.Error(), "CROSSSLOT"):
		p.warn("script", s.address, "one script may use keys of one slot alone, so each client's requests take a script run of their own",
			"set mode cluster if this is a Redis Cluster or has its API; otherwise there is nothing to do")
	default:
		p.failed("script", s.address, "keys of two clients in one script: "+err.Error(),
			"set mode cluster if this is a Redis Cluster or has its API; otherwise use a server that allows such scripts")
	}
}

// undecided reports an algorithm that failed to decide.
func (p *preflight) undecided(s *checkedServer, algorithm string, err error) {
	t := diagnose(err.Error())
	p.unasked = p.unasked || (t.advice != "" && !t.answered)
	if strings.Contains(err.Error(), "Could not find scripting engine") {
		s.scriptAdvice = "load the module lua in Valkey: loadmodule in its configuration, or a build with it"
	}
	advice := cmp.Or(s.scriptAdvice, scriptAdvice[limiter.Kind(err)], t.advice,
		"check whether this is a Redis, and whether it permits scripts")
	p.failed("script", s.address, algorithm+": "+err.Error(), advice)
}

// decide runs two decisions of an algorithm, and returns how long the second took, with the script loaded.
func (p *preflight) decide(ctx context.Context, client goredis.UniversalClient, s *checkedServer,
	algorithm string) (took time.Duration, err error) {
	settings := limiter.Settings{Name: checkPolicyName, Algorithm: algorithm, Limit: 1000, Window: time.Second}
	if algorithm == maxConcurrent || algorithm == wait {
		settings = limiter.Settings{
			Name: checkPolicyName, MaxConcurrent: 1000, NodeTimeout: limiter.MinNodeTimeout, Waits: algorithm == wait,
		}
	}
	policy, err := limiter.NewPolicy(settings)
	if err != nil {
		return 0, err
	}
	// Each algorithm has a store of its own: a breaker that one algorithm has opened would stop the next. The
	// server's own client asks no other server, and is used again afterwards.
	store := redis.New(s.client, redis.Setup{KeyFormat: p.options.Naming})
	defer store.Release()
	key, err := keyAt(ctx, client, store, policy, s)
	if err != nil {
		return 0, err
	}
	checks := []limiter.Check{{Policy: policy, Key: key}}
	for range 2 {
		sent := time.Now()
		if _, err := store.Decide(ctx, checks); err != nil {
			return 0, err
		}
		took = time.Since(sent)
		store.EndRunning(checks)
	}
	return took, nil
}

// keyAt returns a client key that the server stores: any key, or on a Cluster one in its slots.
func keyAt(ctx context.Context, client goredis.UniversalClient, store *redis.Store, policy *limiter.Policy,
	s *checkedServer) (limiter.EncodedKey, error) {
	cluster, ok := client.(*goredis.ClusterClient)
	if !ok {
		return limiter.EncodeKey(checkPolicyName), nil
	}
	for n := range 100_000 {
		key := limiter.EncodeKey(strconv.Itoa(n))
		master, err := cluster.MasterForKey(ctx, store.RedisKey(policy, key))
		if err != nil {
			return key, err
		}
		if master.Options().Addr == s.address {
			return key, nil
		}
	}
	return limiter.EncodedKey{}, fmt.Errorf("the master %s has no slots", s.address)
}
