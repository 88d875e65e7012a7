package redis_test

import (
	"context"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/scripts"
)

// This file plays batches of takes through the scripts of takes only and through that of everything, and holds
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
		pair.stores[i] = stores.OpenWithin(t, server, stores.Patience, limiter.KeyFormat{Prefix: fmt.Sprint("t", i)})
		pair.stores[i].Scripts.Clock = stores.TestClock
	}
	pair.stores[1].Scripts.Always = true
	return pair
}

// send sends a batch of requests to both stores, and returns the answers and errors as texts.
func (pair *takesPair) send(t *testing.T, requests [][]limiter.Check, outcomes map[string]int) (answers [2][]string) {
	t.Helper()
	assert.Must(t, pair.client.Set(t.Context(), "test:clock", pair.now, 0).Err())
	for i, r := range pair.stores {
		calls := make([]*redis.Call, len(requests))
		for j := range requests {
			calls[j] = redis.NewCall(redis.OpTake, requests[j])
		}
		r.Send(context.Background(), r.Topology.AnyNode, calls)
		for _, c := range calls {
			answer := "passes"
			if c.Err != nil {
				answer = limiter.Kind(c.Err)
			} else if !limiter.Allowed(c.Checks) {
				answer = "denied"
			}
			outcomes[fmt.Sprint(answer, " of ", len(c.Checks))]++
			text := []string{answer, fmt.Sprint(c.Err), fmt.Sprint(redis.MayHaveRun(c.Err))}
			for j := range c.Checks {
				text = append(text, fmt.Sprint(c.Checks[j].Result, c.Checks[j].State.Withheld))
			}
			answers[i] = append(answers[i], fmt.Sprint(text))
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

// check makes up a check by one of the policies: a take, seldom a look, one without weight, or one that never passes.
func (pair *takesPair) check(random *rand.Rand, policies []*limiter.Policy) limiter.Check {
	p := policies[random.IntN(len(policies))]
	capacity := p.Capacity()
	weight := min(capacity, []int64{1, 1, 1, 2, capacity, 1 + random.Int64N(capacity)}[random.IntN(6)])
	reserve := min(capacity-weight, []int64{0, 0, 0, 1, capacity / 2}[random.IntN(5)])
	c := limiter.Check{Policy: p, Weight: weight, Reserve: reserve}
	switch random.IntN(16) {
	case 0:
		c.Look = true
	case 1:
		c.Look, c.Reserve, c.Credit = true, 0, min(weight, 2)
	case 2:
		c.Peek = true
	case 3:
		c.Weight = capacity + 1
	}
	return c
}

// request makes up the checks of a request: often one, else up to as many as a script of takes has.
func (pair *takesPair) request(random *rand.Rand, policies []*limiter.Policy) []limiter.Check {
	checks := make([]limiter.Check, []int{1, 1, 1, 2, 2, 3, scripts.MostChecks}[random.IntN(7)])
	for i := range checks {
		checks[i] = pair.check(random, policies)
	}
	return checks
}

// playBatch plays a batch of requests, of one shape or of several.
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
	requests, texts := make([][]limiter.Check, []int{1, 1, 2, 3, 8}[random.IntN(5)]), []string(nil)
	same := pair.request(random, policies)
	for i := range requests {
		requests[i] = slices.Clone(same)
		if shapes {
			requests[i] = pair.request(random, policies)
		}
		first := random.IntN(len(takenKeys))
		for j := range requests[i] {
			c := &requests[i][j]
			c.Key = limiter.EncodeKey(takenKeys[(first+j)%len(takenKeys)]) // no request has a quota twice
			texts = append(texts, fmt.Sprintf("%d: %s by %s: %d, leaving %d, look %t, peek %t", i, c.Key, c.Policy.ID, c.Weight, c.Reserve, c.Look, c.Peek))
		}
	}
	play.Step("epoch%+d %q", pair.now-storetest.Epoch, texts)
	answers := pair.send(t, requests, outcomes)
	differ := assert.Differ(answers[0], answers[1])
	assert.FatalIf(t, differ != "", "takes.lua answers not as batch.lua: %s", differ)
	for _, c := range slices.Concat(requests...) {
		a, livesA := pair.stored(t, 0, c.Policy, c.Key)
		b, livesB := pair.stored(t, 1, c.Policy, c.Key)
		assert.FatalIf(t, a != b || (livesA-livesB).Abs() > time.Minute, "%s by %s: states %s for %v, and %s for %v", c.Key, c.Policy.ID, a, livesA, b, livesB)
	}
}

// TestScripts_agree_on_takes plays random batches of takes: of one policy or several, of one shape or several, by one kernel
// or up to three, with keys that come several times, clocks that go backwards, and values that are no states.
func TestScripts_agree_on_takes(t *testing.T) {
	t.Parallel()
	outcomes, built := map[string]int{}, map[redis.KernelSet]bool{}
	kernels := map[string][]*limiter.Policy{}
	patient := time.Hour
	queue := storetest.NewPolicy(t, limiter.Settings{Name: "queue", Algorithm: limiter.LeakyBucket, Limit: 100_000, Window: 24 * time.Hour, MaxDelay: &patient})
	for _, p := range append(storetest.TracePolicies(t), queue) { // the last one has delays in milliseconds
		if name := p.Algorithm.Script; p.Ban == nil && scripts.HasTakes(1, name) {
			kernels[name] = append(kernels[name], p)
		}
	}
	names := slices.Sorted(maps.Keys(kernels))
	for first := range names {
		for seed, play := range assert.Plays(t, 8, 80) {
			var all []*limiter.Policy
			for i := range 1 + int(seed)%3 {
				all = append(all, kernels[names[(first+i*(1+int(seed)/3))%len(names)]]...)
			}
			pair := newTakesPair(t) // a node has a bounded number of scripts
			assert.Must(t, pair.client.FlushDB(t.Context()).Err())
			pair.play(t, play, rand.New(rand.NewPCG(seed, uint64(first))), all, outcomes)
			for set := range pair.stores[0].Scripts.Built {
				built[set] = true
			}
			for set := range pair.stores[1].Scripts.Built {
				assert.ErrorIf(t, set >= redis.TakesFragment && set < 2*redis.AloneFragment, "the second store does not use batch.lua alone")
			}
		}
		set := redis.KernelSet(1 << slices.Index(redis.KernelNames, names[first]))
		for name, script := range map[string]redis.KernelSet{"one take": redis.AloneFragment, "two checks": 3 * redis.TakesFragment} {
			assert.ErrorIf(t, !built[set|script], "%s: no %s was decided by a script of takes", names[first], name)
		}
	}
	for _, outcome := range []string{"passes", "denied", "value"} {
		for _, checks := range []int{1, 2, scripts.MostChecks} {
			seen := outcomes[fmt.Sprint(outcome, " of ", checks)]
			assert.ErrorIf(t, assert.AllSeeds() && seen < 100 || seen == 0, "outcomes %v", outcomes)
		}
	}
}

// play plays batches by policies.
func (pair *takesPair) play(t *testing.T, play *assert.Play, random *rand.Rand, all []*limiter.Policy, outcomes map[string]int) {
	t.Helper()
	for round := range 50 {
		policies := all
		if round%3 > 0 {
			policies = []*limiter.Policy{all[random.IntN(len(all))], all[random.IntN(len(all))]}
		}
		pair.playBatch(t, play, random, policies, round%2 == 0, outcomes)
	}
}

// takesSets are the sets of all scripts of takes, and of takes alone.
func takesSets() (sets []redis.KernelSet) {
	for kernels := range redis.KernelSet(1) << len(redis.KernelNames) {
		for checks := range redis.KernelSet(scripts.MostChecks + 1) {
			if set := kernels | (1+checks)*redis.TakesFragment; new(redis.ScriptSet).Takes(set) != nil {
				sets = append(sets, set)
			}
		}
		if set := kernels | redis.AloneFragment; bits.OnesCount(uint(kernels)) == 1 && new(redis.ScriptSet).Takes(set) != nil {
			sets = append(sets, set)
		}
	}
	return sets
}

// TestScripts_of_takes_load has Redis load all scripts of takes: a function of Lua has a bounded number of locals.
func TestScripts_of_takes_load(t *testing.T) {
	t.Parallel()
	client, sets := redistest.Shared(t).Client(t), takesSets()
	assert.Equal(t, len(sets), 96+5, "scripts")
	var scripts redis.ScriptSet
	for _, set := range sets {
		introduce(t, client, &scripts, set)
	}
}

// introduce has Redis keep a script, which runs for no request.
func introduce(t *testing.T, client *goredis.Client, set *redis.ScriptSet, script redis.KernelSet) {
	t.Helper()
	command := assert.NoError(set.Get(script))(t).Introduce(t.Context(), "rl:{k}")
	_ = client.Process(t.Context(), command)
	text, err := command.Text()
	assert.ErrorIf(t, err != nil || len(text) != 8, "the script answers %q, %v; want the time", text, err)
}

// TestScriptSet_Takes_bound has senders ask for all scripts of takes at once: a node builds as many as it may, and each once.
func TestScriptSet_Takes_bound(t *testing.T) {
	t.Parallel()
	var set redis.ScriptSet
	var senders sync.WaitGroup
	for _, takes := range slices.Repeat(takesSets(), 3) {
		senders.Go(func() { set.Takes(takes) })
	}
	senders.Wait()
	built := map[redis.KernelSet]*redis.Script{}
	for _, takes := range takesSets() {
		if script := set.Takes(takes); script != nil {
			built[takes] = script
			script.SentAt(time.Now())
		}
	}
	assert.Equal(t, len(built), 32, "scripts that were built")
	assert.ErrorIf(t, len(set.InUse(0)) > 2*32, "%d scripts are in use", len(set.InUse(0)))
	for takes, script := range set.Built {
		assert.ErrorIf(t, takes&^0xffff != 0 && script != built[takes], "the script of %x is another", takes)
	}
}

// TestScriptSet_Takes_once has senders need one script at once: who does not build it has none until it is there.
func TestScriptSet_Takes_once(t *testing.T) {
	t.Parallel()
	var set redis.ScriptSet
	var senders sync.WaitGroup
	found := make([]*redis.Script, 16)
	for i := range found {
		senders.Go(func() { found[i] = set.Takes(3*redis.TakesFragment | 1) })
	}
	senders.Wait()
	built := set.Takes(3*redis.TakesFragment | 1)
	assert.ErrorIf(t, built == nil, "there is no script")
	for _, script := range found {
		assert.ErrorIf(t, script != nil && script != built, "there are several scripts")
	}
}
