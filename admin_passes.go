package redisratelimit

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/escape"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/explain"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/failover"
)

// This file is what the admin API tells of passes: a client's key stands for its passes too.

// quotas returns checks of a key's quota, and of those of its passes. That of a pass stands alone.
func (r *registeredPolicy) quotas(p *limiter.Policy, key limiter.EncodedKey, overridden bool) []limiter.Check {
	c := r.identity.challenge
	client, number, isPass := rule.CutPass(key)
	checks := []limiter.Check{{Policy: p, Key: client}}
	if isPass {
		c.Admit(&checks[0], number, r.variants, overridden)
		return checks
	}
	for n := range c.Passes {
		check := checks[0]
		c.Admit(&check, strconv.Itoa(n), r.variants, overridden)
		checks = append(checks, check)
	}
	return checks
}

// challengeReport describes the passes of a policy; nil for none.
func challengeReport(c rule.Challenge) *adminapi.ChallengeReport {
	if c.Passes == 0 {
		return nil
	}
	return &adminapi.ChallengeReport{Passes: c.Passes, Limit: c.Limit}
}

// passesInUse peeks at the quotas of passes, many at a time, and reports those that were taken from.
func passesInUse(ctx context.Context, stores *storepool.Stores, passes []limiter.Check) (reports []adminapi.PassReport) {
	eachAtOnce(len(passes), func(i int) bool {
		_, err := stores.Peek(ctx, &passes[i])
		return err == nil
	})
	for i := range passes {
		if c := &passes[i]; c.Result.ResetAfter > 0 {
			reports = append(reports, adminapi.PassReport{Key: escape.Key(c.Key.String()), QuotaReport: explain.Quota(c.Policy, c.Result)})
		}
	}
	return reports
}

// resetQuotas forgets quotas, many at a time, and returns how many there were.
func resetQuotas(ctx context.Context, stores *storepool.Stores, checks []limiter.Check) (total failover.ResetCount, err error) {
	var mu sync.Mutex
	eachAtOnce(len(checks), func(i int) bool {
		found, failed := stores.Reset(ctx, checks[i].Policy, checks[i].Key)
		mu.Lock()
		defer mu.Unlock()
		total.Shared, total.Here, err = total.Shared+found.Shared, total.Here+found.Here, cmp.Or(err, failed)
		return failed == nil
	})
	return total, err
}

// eachAtOnce calls a function for each index, for at most maxPeeks at a time, until it fails.
func eachAtOnce(n int, call func(i int) (ok bool)) {
	var calls sync.WaitGroup
	var failed atomic.Bool
	slots := make(chan struct{}, maxPeeks)
	for i := range n {
		slots <- struct{}{}
		if failed.Load() {
			break
		}
		calls.Go(func() {
			defer func() { <-slots }()
			if !call(i) {
				failed.Store(true)
			}
		})
	}
	calls.Wait()
}
