package redis_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

func TestResetAll_one_policy(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := server.Client(t)
	r := stores.Open(t, server)
	one, two := storetest.DayPolicy(t, "one", limiter.TokenBucket, 5), storetest.DayPolicy(t, "two", limiter.SlidingWindowLog, 5)
	before := storetest.NewPolicy(t, limiter.Settings{Name: "one", Algorithm: limiter.FixedWindow, Limit: 5, Window: storetest.LongWindow(0)})
	storetest.Fill(t, r, one, 2500)
	storetest.Fill(t, r, before, 10)
	storetest.Fill(t, r, two, 10)
	foreign := []string{redis.NewKeyWriter(r.KeyFormat).Head + "x}:one:not-a-code", "other:{x}:one:t1d", "one"}
	for _, name := range foreign {
		client.Set(context.Background(), name, "foreign", 0)
	}
	found, err := r.ResetAll(context.Background(), "one")
	assert.ErrorIf(t, found != 2510 || err != nil, "forgot %d, %v, want 2510: also those of former settings", found, err)
	assert.Equal(t, client.DBSize(context.Background()).Val(), int64(10+len(foreign)), "the number of keys that are left")
}

func TestResetAll_Cluster(t *testing.T) {
	t.Parallel()
	r, _ := stores.OpenCluster(t)
	storetest.Fill(t, r, storetest.DayPolicy(t, "spread", limiter.GCRA, 5), 300)
	found, err := r.ResetAll(context.Background(), "spread")
	assert.ErrorIf(t, found != 300 || err != nil, "forgot %d, %v, want 300", found, err)
	found, err = r.ResetAll(context.Background(), "spread")
	assert.ErrorIf(t, found != 0 || err != nil, "then %d, %v, want none", found, err)
}

// TestResetAll_probe has a probe of each node leave its key, which is no client's and does not count.
func TestResetAll_probe(t *testing.T) {
	t.Parallel()
	ctx, server, masters := context.Background(), redistest.Start(t), redistest.StartCluster(t)
	for name, c := range map[string]struct {
		servers []*redistest.Server
		format  limiter.KeyFormat
	}{
		"readable":         {[]*redistest.Server{server}, limiter.KeyFormat{Prefix: "rl"}},
		"hashed":           {[]*redistest.Server{server}, limiter.KeyFormat{Prefix: "hashed", Secret: "pepper"}},
		"of a Cluster":     {masters, limiter.KeyFormat{Prefix: "rl"}},
		"hashed, Clusters": {masters, limiter.KeyFormat{Prefix: "hashed", Secret: "pepper"}},
	} {
		options := dial.Connection{Addresses: []string{c.servers[0].Addr}, Timeout: stores.Patience}
		if len(c.servers) > 1 {
			options.Mode = dial.Cluster
		}
		r := stores.OpenStore(t, options, redis.Setup{KeyFormat: c.format})
		p := storetest.DayPolicy(t, "probed", limiter.GCRA, 5)
		storetest.Fill(t, r, p, 20)
		keepers := make([]*keeper, len(c.servers))
		for i, s := range c.servers {
			keepers[i] = &keeper{client: s.Client(t), pattern: c.format.Prefix + ":{%!*"}
		}
		kept := 0
		assert.Retry(t, "each node has the key of a probe", func() (again bool, seen any) {
			keepWhile(t, keepers, func() { assert.NoError(r.ProbeEach(ctx, []*limiter.Policy{p}))(t) })
			kept = 0
			for _, k := range keepers {
				kept += k.kept
			}
			return kept != len(c.servers), kept
		})
		found, err := r.ResetAll(ctx, "probed")
		assert.ErrorIf(t, found != 20 || err != nil, "%s: forgot %d, %v, want 20 and not those of %d probes", name, found, err, kept)
	}
}

// keeper has a server keep keys that expire within milliseconds.
type keeper struct {
	client  *goredis.Client
	pattern string
	kept    int
}

// keepWhile keeps keys while a function runs. A client that asked only afterwards would come too late on a busy machine.
func keepWhile(t *testing.T, keepers []*keeper, run func()) {
	t.Helper()
	const keep = "local keys = redis.call('keys', ARGV[1])\nfor _, key in ipairs(keys) do redis.call('persist', key) end\nreturn #keys"
	var ended atomic.Bool
	var keeping sync.WaitGroup
	for _, k := range keepers {
		keeping.Go(func() {
			for !ended.Load() {
				found, err := k.client.Eval(t.Context(), keep, nil, k.pattern).Int()
				assert.ErrorIf(t, err != nil, "keeping keys: %v", err)
				k.kept = max(k.kept, found)
			}
		})
	}
	run()
	ended.Store(true)
	keeping.Wait()
}

// TestRedis_Inspect reads the state of every algorithm back.
func TestRedis_Inspect(t *testing.T) {
	t.Parallel()
	r := stores.Open(t, redistest.Shared(t))
	for _, algorithm := range limiter.Algorithms() {
		p := storetest.DayPolicy(t, "stored-"+algorithm, algorithm, 9)
		if stored, err := r.Inspect(context.Background(), p, limiter.EncodeKey("k")); err != nil || len(stored) != 0 {
			t.Errorf("%s: nothing is stored yet: %v, %v", algorithm, stored, err)
		}
		storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 2})
		storetest.Decide(t, r, limiter.Check{Policy: p, Key: limiter.EncodeKey("k"), Weight: 3})
		stored, err := r.Inspect(context.Background(), p, limiter.EncodeKey("k"))
		assert.FatalIf(t, err != nil || len(stored) != 1 || stored[0].Name != r.RedisKey(p, limiter.EncodeKey("k")) || stored[0].TTL <= 0,
			"%s: %+v, %v", algorithm, stored, err)
		words := map[string]any{"units": int64(5), "units_after_first_entry": int64(3), "entries": int64(2)}
		found := false
		for word, want := range words {
			if got, described := stored[0].Value[word]; described {
				if found = true; got != want {
					t.Errorf("%s: %s is %v, want %v", algorithm, word, got, want)
				}
			}
		}
		if owed, described := stored[0].Value["units_owed"].(float64); described {
			found = owed > 4.99 && owed <= 5 // it drains
		}
		assert.ErrorIf(t, !found, "%s: %v", algorithm, stored[0].Value)
	}
}
