package redis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/onredis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/wire"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/scripts"
)

// This file plays batches of takes through the script of takes only and through that of everything, and holds
// the answers, the errors and the states equal.

// takesPair is two stores on one Redis and one clock, of which the second uses batch.lua for everything.
type takesPair struct {
	client *goredis.Client
	stores [2]*redis.Store
	now    int64
}

func newTakesPair(t *testing.T) *takesPair {
	t.Helper()
	server := redistest.Shared(t)
	pair := &takesPair{client: server.Client(t), now: storetest.Epoch}
	for i := range pair.stores {
		pair.stores[i] = onredis.OpenWithin(t, server, onredis.Patience, limiter.KeyFormat{Prefix: fmt.Sprint("t", i)})
		pair.stores[i].Scripts.Clock = onredis.TestClock
	}
	pair.stores[1].Scripts.Always = true
	return pair
}

// send sends a batch to both stores, and returns the answers and errors as texts.
func (pair *takesPair) send(t *testing.T, checks []limiter.Check, outcomes map[string]int) (answers [2][]string) {
	t.Helper()
	assert.Must(t, pair.client.Set(t.Context(), "test:clock", pair.now, 0).Err())
	for i, r := range pair.stores {
		calls := make([]*redis.Call, len(checks))
		for j := range checks {
			calls[j] = redis.NewCall(wire.OpTake, checks[j:j+1])
		}
		r.Send(context.Background(), r.Topology.AnyNode, calls)
		for _, c := range calls {
			answer := "passes"
			if c.Err != nil {
				answer = limiter.Kind(c.Err)
			} else if !c.Checks[0].Result.Passes() {
				answer = "denied"
			}
			outcomes[answer]++
			answers[i] = append(answers[i], fmt.Sprint(answer, c.Checks[0].Result, c.Checks[0].State.Withheld, c.Err))
			c.Recycle()
		}
	}
	return answers
}

// stored returns the state of a key in one of the stores, and when it expires.
func (pair *takesPair) stored(t *testing.T, store int, p *limiter.Policy, key limiter.EncodedKey) (state string, lives time.Duration) {
	t.Helper()
	name, pipeline := pair.stores[store].RedisKey(p, key), pair.client.Pipeline()
	ttl, list, text := pipeline.PTTL(t.Context(), name), pipeline.LRange(t.Context(), name, 0, -1), pipeline.Get(t.Context(), name)
	_, _ = pipeline.Exec(t.Context()) // it is either a list or a text, or neither
	return fmt.Sprintf("%q %q", list.Val(), text.Val()), ttl.Val()
}

// spoil stores what is no state, under a key of both stores.
func (pair *takesPair) spoil(t *testing.T, random *rand.Rand, p *limiter.Policy, key string) {
	t.Helper()
	for _, r := range pair.stores {
		assert.Must(t, pair.client.Del(t.Context(), r.RedisKey(p, limiter.EncodeKey(key))).Err())
	}
	values := []string{"x", redistest.Doubles(-1, 0.5), redistest.Doubles(1, 2, 3, 4), redistest.Doubles(0, 1<<52), redistest.Doubles(1<<53, 0, 1)}
	value, kind := values[random.IntN(len(values))], random.IntN(3)
	for _, r := range pair.stores {
		name := r.RedisKey(p, limiter.EncodeKey(key))
		var err error
		switch kind {
		case 0:
			err = pair.client.Set(t.Context(), name, value, time.Hour).Err()
		case 1:
			err = pair.client.RPush(t.Context(), name, value).Err()
		default:
			err = pair.client.SAdd(t.Context(), name, value).Err()
		}
		assert.Must(t, err)
	}
}

// takenKeys are those of the takes.
var takenKeys = []string{"a", "b", "c", "d", "e"}

// take makes up a take by one of the policies.
func (pair *takesPair) take(random *rand.Rand, policies []*limiter.Policy) limiter.Check {
	p := policies[random.IntN(len(policies))]
	capacity := p.Capacity()
	weight := min(capacity, []int64{1, 1, 1, 2, capacity, 1 + random.Int64N(capacity)}[random.IntN(6)])
	reserve := min(capacity-weight, []int64{0, 0, 0, 1, capacity / 2}[random.IntN(5)])
	return limiter.Check{Policy: p, Key: limiter.EncodeKey(takenKeys[random.IntN(len(takenKeys))]), Weight: weight, Reserve: reserve}
}

// playBatch plays a batch of takes, of one shape or of several.
func (pair *takesPair) playBatch(t *testing.T, play *assert.Play, random *rand.Rand, policies []*limiter.Policy, shapes bool, outcomes map[string]int) {
	t.Helper()
	p := policies[random.IntN(len(policies))]
	window := p.Settings.Window.Microseconds()
	pair.now += []int64{0, 1, window / 3, window, p.Params.Tick * random.Int64N(1000), -window / 2}[random.IntN(6)]
	if random.IntN(5) == 0 {
		key := takenKeys[random.IntN(len(takenKeys))]
		play.Step("the state of %s by %s becomes none", key, p.ID)
		pair.spoil(t, random, p, key)
	}
	checks, texts := make([]limiter.Check, 1+random.IntN(8)), []string(nil)
	same := pair.take(random, policies)
	for i := range checks {
		checks[i] = same
		if shapes {
			checks[i] = pair.take(random, policies)
		}
		c := &checks[i]
		c.Key = limiter.EncodeKey(takenKeys[random.IntN(len(takenKeys))])
		texts = append(texts, fmt.Sprintf("%s by %s: %d, leaving %d", c.Key, c.Policy.ID, c.Weight, c.Reserve))
	}
	play.Step("epoch%+d %q", pair.now-storetest.Epoch, texts)
	answers := pair.send(t, checks, outcomes)
	differ := assert.Differ(answers[0], answers[1])
	assert.FatalIf(t, differ != "", "takes.lua answers not as batch.lua: %s", differ)
	for i := range checks {
		a, livesA := pair.stored(t, 0, checks[i].Policy, checks[i].Key)
		b, livesB := pair.stored(t, 1, checks[i].Policy, checks[i].Key)
		assert.FatalIf(t, a != b || (livesA-livesB).Abs() > time.Minute, "%s: states %s for %v, and %s for %v", texts[i], a, livesA, b, livesB)
	}
}

// TestScripts_agree_on_takes plays random batches of takes: of one policy or several, of one shape or several, with
// keys that come several times, clocks that go backwards, and values that are no states.
func TestScripts_agree_on_takes(t *testing.T) {
	t.Parallel()
	pair := newTakesPair(t)
	outcomes := map[string]int{}
	kernels := map[string][]*limiter.Policy{}
	patient := time.Hour
	queue := storetest.NewPolicy(t, limiter.Settings{Name: "queue", Algorithm: limiter.LeakyBucket, Limit: 100_000, Window: 24 * time.Hour, MaxDelay: &patient})
	for _, p := range append(storetest.TracePolicies(t), queue) { // the last one has delays in milliseconds
		if name := p.Algorithm.Script; p.Ban == nil && scripts.HasTakes(name) {
			kernels[name] = append(kernels[name], p)
		}
	}
	for name, all := range kernels {
		for seed, play := range assert.Plays(t, 5, 80) {
			assert.Must(t, pair.client.FlushDB(t.Context()).Err())
			pair.now = storetest.Epoch
			random := rand.New(rand.NewPCG(seed, uint64(len(all))))
			for round := range 50 {
				policies := all
				if round%3 > 0 {
					policies = all[round%len(all):][:1]
				}
				pair.playBatch(t, play, random, policies, round%2 == 0, outcomes)
			}
		}
		set := wire.KernelSet(1<<slices.Index(wire.KernelNames, name)) | wire.TakesFragment
		assert.ErrorIf(t, pair.stores[0].Scripts.Built[set] == nil, "%s: no takes were decided by takes.lua", name)
	}
	for set := range pair.stores[1].Scripts.Built {
		assert.ErrorIf(t, set&wire.TakesFragment != 0, "the second store does not use batch.lua alone")
	}
	for _, outcome := range []string{"passes", "denied", "value"} {
		assert.ErrorIf(t, assert.AllSeeds() && outcomes[outcome] < 100, "outcomes %v", outcomes)
	}
}
