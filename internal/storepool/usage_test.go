package storepool

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// taken is units that a request of a key takes.
type taken struct {
	key   limiter.EncodedKey
	units int64
}

// streams are requests of clients in orders that suit a sketch more and less.
func streams(random *rand.Rand) map[string]func(i int) taken {
	zipf := rand.NewZipf(random, 1.2, 1, 5000)
	client := func(n uint64) limiter.EncodedKey { return limiter.EncodeKey(fmt.Sprint("client-", n)) }
	return map[string]func(i int) taken{
		"zipf":    func(int) taken { return taken{client(zipf.Uint64()), 1} },
		"uniform": func(int) taken { return taken{client(random.Uint64N(60)), 1} },
		"many":    func(int) taken { return taken{client(random.Uint64N(20_000)), 1} },
		"weights": func(int) taken { return taken{client(zipf.Uint64()), 1 + int64(random.ExpFloat64()*500)} },
		"sizes": func(int) taken { // a few large responses among many small ones
			return taken{client(random.Uint64N(60)), 1 + int64(1000/(random.Float64()+1e-4))}
		},
		"adversarial": func(i int) taken { // first the frequent ones, then keys that come once, each evicting another
			if i < 20_000 {
				return taken{client(uint64(i % 150)), 1}
			}
			return taken{client(uint64(1000 + i)), 1}
		},
		"growing": func(i int) taken { return taken{client(uint64(i % 150)), 1 + int64(i/100)} }, // the last ones count most
	}
}

// TestUsage_List_bound compares with exact sums. What a sample was short of or too high by is within its error for 95 % of
// keys; what a sketch is too high by, within its own for all.
func TestUsage_List_bound(t *testing.T) {
	const requests = 60_000
	within, keys := map[string]int{}, map[string]int{}
	for seed, play := range assert.Plays(t, 12, 200) {
		all := streams(rand.New(rand.NewPCG(seed, 7)))
		for _, name := range slices.Sorted(maps.Keys(all)) { // which share the random numbers
			next := all[name]
			now := time.Unix(1_790_000_000, 0)
			usage, exact := newUsage(func() time.Time { return now }), map[string]int64{}
			for i := range requests {
				if i == requests/2 {
					now = now.Add(sketchPeriod)
				}
				r := next(i)
				play.Step("%s: %s uses %d", name, r.key, r.units)
				usage.Add(r.key, r.units, rand.Uint64())
				exact[r.key.String()] += r.units
			}
			list := usage.list()
			assert.FatalIf(t, list.Step < 2 || list.Since != sketchPeriod || len(list.Keys) > 2*sketchKept, "%s: step %d since %v, %d keys", name, list.Step, list.Since, len(list.Keys))
			listed := map[string]bool{}
			for _, k := range list.Keys {
				e := samplingError(k.Variance, list.Step)
				listed[k.Key] = true
				keys[name]++
				if used := exact[k.Key]; k.Count-k.Error-e <= used && used <= k.Count+e {
					within[name]++
				}
			}
			most := list.Missing.Count + 2*samplingError(list.Missing.Variance, list.Step) // a bound that all the keys keep
			for key, used := range exact {
				assert.ErrorIf(t, !listed[key] && used > most, "%s: %s has used %d and is missing, %d is the most", name, key, used, most)
			}
		}
	}
	for name := range keys {
		share := float64(within[name]) / float64(keys[name])
		t.Logf("%s: %.4f of %d", name, share, keys[name])
		assert.ErrorIf(t, assert.AllSeeds() && share < 0.95, "%s: %.4f of %d keys are within the error", name, share, keys[name])
	}
}

// TestSamplingError_coverage draws samples of one key, so that no sketch adds to the error. The interval is hardly wider than
// it has to be.
func TestSamplingError_coverage(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, units := range []int64{1, 10, 40} {
		for _, requests := range []int{20, 200, 2000, 20_000} {
			const rounds, step = 2000, 64
			within, sum := 0, 0.0
			for range rounds {
				var all spaceSaving
				for range requests {
					if random.Int64N(step) < units {
						all.add("k", amount{count: step, variance: float64(step * (step - units))})
					}
				}
				k, used := all.get("k"), units*int64(requests)
				sum += float64(k.Count) / float64(used)
				if e := samplingError(k.Variance, step); k.Count-e <= used && used <= k.Count+e {
					within++
				}
			}
			share := float64(within) / rounds
			t.Logf("%d requests of %d units: %.3f within", requests, units, share)
			assert.ErrorIf(t, share < 0.94, "%d requests of %d units: %.3f within the error", requests, units, share)
			assert.ErrorIf(t, requests >= 2000 && share > 0.985, "%d requests of %d units: %.3f within an error that is too large", requests, units, share)
			assert.ErrorIf(t, requests >= 200 && (sum/rounds < 0.96 || sum/rounds > 1.04), "%d requests of %d units are %.3f of them in the mean", requests, units, sum/rounds)
		}
	}
}

// TestUsage_Add_few counts few requests exactly, each period anew.
func TestUsage_Add_few(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	usage := newUsage(func() time.Time { return now })
	a, b := limiter.EncodeKey("a"), limiter.EncodeKey("b")
	assert.Equal(t, len(usage.list().Keys), 0, "keys before the first")
	usage.Add(a, 0, rand.Uint64())
	usage.Add(a, -5, rand.Uint64())
	assert.Equal(t, len(usage.list().Keys), 0, "keys of requests that have used nothing")
	for range 100 {
		usage.Add(a, 1, rand.Uint64())
	}
	usage.Add(b, 1<<53, rand.Uint64())
	usage.Add(b, 1<<60, rand.Uint64())
	list := usage.list()
	assert.FatalIf(t, len(list.Keys) != 2 || list.Step != 1 || list.Missing != keyCount{}, "%+v", list)
	assert.Equal(t, list.Keys[0], keyCount{Key: "b", Count: mostCount}, "the largest")
	assert.Equal(t, list.Keys[1], keyCount{Key: "a", Count: 100}, "the other")
	for range 100_000 {
		usage.Add(a, 1, rand.Uint64())
	}
	assert.Equal(t, usage.list().Step, sampledOf, "the step of many requests")
	now = now.Add(sketchPeriod)
	assert.Equal(t, usage.list().Step, sampledOf, "the step while the period before counts")
	usage.Add(b, 3, rand.Uint64())
	now = now.Add(sketchPeriod)
	list = usage.list()
	assert.FatalIf(t, len(list.Keys) != 1 || list.Step != 1, "%+v", list)
	assert.Equal(t, list.Keys[0], keyCount{Key: "b", Count: 3}, "the later")
	now = now.Add(time.Hour)
	assert.Equal(t, len(usage.list().Keys), 0, "keys an hour later")
}

// TestUsage_Add_large lets the step grow with the units of requests, so that few are in the sample.
func TestUsage_Add_large(t *testing.T) {
	for _, units := range []int64{1, 50, 1 << 20, 1 << 45, limiter.MaxCharge} {
		usage := newUsage(time.Now)
		for range 100_000 {
			usage.Add(limiter.EncodeKey("k"), units, rand.Uint64())
		}
		list := usage.list()
		step := min(list.Step, mostStep)
		assert.ErrorIf(t, step != list.Step || step/units < min(sampledOf, mostStep/units) || step/units >= 2*sampledOf, "%d units have the step %d", units, list.Step)
	}
}

// TestUsage_memory says how many bytes the policies of a large configuration take, once all have more keys than are kept.
func TestUsage_memory(t *testing.T) {
	const policies = 200
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	now := time.Unix(1_790_000_000, 0)
	for _, test := range []struct {
		name       string
		keys, long int
		most       int64
	}{{"one key", 1, 16, 1500}, {"all kept", 300, 16, 34_000}, {"the longest keys", 300, 128, 62_000}} {
		before := heap()
		usages := make([]*usage, policies)
		for p := range usages {
			usages[p] = newUsage(func() time.Time { return now })
			for period := range 2 {
				for i := range test.keys {
					usages[p].Add(limiter.EncodeKey(fmt.Sprintf("%0*d", test.long, period*1000+i)), 1<<52, rand.Uint64())
				}
				now = now.Add(sketchPeriod * time.Duration(1-period))
			}
		}
		each := (heap() - before) / policies
		runtime.KeepAlive(usages)
		t.Logf("%s: %d bytes each", test.name, each)
		assert.ErrorIf(t, each > test.most, "%s: %d bytes a policy", test.name, each)
	}
}

// TestUsage_concurrent adds on all processors at once.
func TestUsage_concurrent(t *testing.T) {
	usage, done := newUsage(time.Now), make(chan struct{})
	const adders, each = 4, 50_000
	for a := range adders {
		go func() {
			for range each {
				usage.Add(limiter.EncodeKey(strings.Repeat("k", a+1)), 1, rand.Uint64())
			}
			done <- struct{}{}
		}()
	}
	for range adders {
		<-done
	}
	list := usage.list()
	assert.FatalIf(t, len(list.Keys) != adders, "%+v", list)
	for _, k := range list.Keys {
		e := 2 * samplingError(k.Variance, list.Step)
		assert.ErrorIf(t, k.Count < each-e || k.Count > each+e || k.Error != 0, "%+v, and %d were added", k, each)
	}
}

// BenchmarkUsage_Add is what a request pays: once its policy is busy, with few keys and with so many that each that is in the
// sample replaces another, by one goroutine and by all processors.
func BenchmarkUsage_Add(b *testing.B) {
	for _, units := range []int64{1, 5000} {
		for _, n := range []int{1, 100, 100_000} {
			keys := make([]limiter.EncodedKey, n)
			for i := range keys {
				keys[i] = limiter.EncodeKey(fmt.Sprint("client-", i*7919%n))
			}
			b.Run(fmt.Sprintf("units=%d/keys=%d", units, n), func(b *testing.B) {
				usage := newUsage(time.Now)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					usage.Add(keys[i%n], units, rand.Uint64())
				}
			})
			b.Run(fmt.Sprintf("units=%d/keys=%d/parallel", units, n), func(b *testing.B) {
				usage := newUsage(time.Now)
				b.RunParallel(func(pb *testing.PB) {
					for i := 0; pb.Next(); i++ {
						usage.Add(keys[i%n], units, rand.Uint64())
					}
				})
			})
		}
	}
}
