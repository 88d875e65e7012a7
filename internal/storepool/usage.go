package storepool

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// usage counts the units that keys have used lately, in bounded memory. Of all requests it looks at a sample, and counts
// that by the algorithm of [sketch].
//
// The sample is a threshold sample (Duffield, Lund, Thorup: Learn more, sample less, 2005). By a step N, a request of w
// units is in the sample with the probability min(1, w/N), and stands for max(w, N) units. That sum is unbiased: its mean
// is w. Its variance for one request is w(N-w) where w < N, which N(N-w) for each request in the sample estimates without
// bias, and 0 otherwise: large requests are all counted.
//
// N is 1 for the first [sampleEvery] requests of a period, so that few requests are counted exactly. Then N grows until 1
// of [sampledOf] requests is in the sample, at most. A later N depends on earlier requests alone, so that the sum stays
// unbiased.
//
// What a key has used lies between Count-Error-e and Count+e. Error is the bound of Space-Saving, which always holds for
// the sample. e is [samplingError] for the sample, which holds for 95 % of keys, or for a few more.
//
// A Usage takes 200 bytes. With the first request it allocates more, 850 bytes for one key, and about 30 kB for 256 keys of
// two periods; 60 kB if all of them have 128 bytes, the longest. It is safe for concurrent use.
type usage struct {
	step atomic.Int64 // N, a power of two; 0: 1

	mu     sync.Mutex
	now    func() time.Time
	of     periods
	before int64 // the step at the end of the previous period

	// Since the step was set:
	sampled int     // requests in the sample
	met     float64 // requests that they stand for
}

const (
	// sampleEvery is how many requests in the sample are a reason to look whether the step has to grow.
	sampleEvery = 256

	// sampledOf is of how many requests one is in the sample.
	sampledOf = 64

	// mostStep is the largest step, 2^52: no request takes more units.
	mostStep = limiter.MaxCharge
)

// newUsage returns an empty usage that reads the time from now.
func newUsage(now func() time.Time) *usage { return &usage{now: now, of: periods{began: now()}} }

// Add counts units that a request has used, by a random number of which 52 bits count; 0 or less are none. Usages of several
// policies may have the number in common. A request outside of the sample takes no lock. A nil Usage counts nothing, so that a
// benchmark can tell what counting costs.
func (u *usage) Add(key limiter.EncodedKey, units int64, random uint64) {
	if u == nil {
		return
	}
	if step := u.step.Load(); units >= step || int64(random&uint64(step-1)) < units {
		u.sample(key.String(), units, max(1, step))
	}
}

// sample adds a request to the sample, which it is in by a step.
func (u *usage) sample(key string, units, step int64) {
	if units <= 0 {
		return
	}
	now := u.now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.advance(now)
	a, standsFor := amount{count: max(units, step)}, 1.0
	if units < step {
		standsFor = float64(step) / float64(units)
		a.variance = float64(step) * float64(step-units)
	}
	u.of.current.add(key, a)
	u.sampled, u.met = u.sampled+1, u.met+standsFor
	if u.sampled == sampleEvery {
		u.adapt()
	}
}

// adapt lets the step grow where too many requests are in the sample. The lock is held.
func (u *usage) adapt() {
	if most := u.met / sampledOf; float64(u.sampled) > most {
		times := math.Ceil(float64(u.sampled) / most)
		u.step.Store(min(max(1, u.step.Load())<<bits.Len(uint(times)-1), mostStep))
	}
	u.sampled, u.met = 0, 0
}

// advance begins a new period after the end of the current one. The lock is held.
func (u *usage) advance(now time.Time) {
	if u.of.advance(now) {
		u.before = u.step.Swap(1)
		u.sampled, u.met = 0, 0
	}
}

// usedKeys are the keys of a policy that have used units.
type usedKeys struct {
	// Keys have the largest count first.
	Keys []keyCount

	// Missing is the most that another key may have.
	Missing keyCount

	// Step is the largest step of the sample; 1: all requests were counted.
	Step int64

	// Since is how far back the counts go.
	Since time.Duration
}

// list returns the keys that are kept.
func (u *usage) list() (list usedKeys) {
	now := u.now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.advance(now)
	list = usedKeys{Step: max(1, u.step.Load()), Since: u.of.since(now)}
	if u.of.previous.kept != nil {
		list.Step = max(list.Step, u.before)
	}
	if !u.of.empty() {
		list.Keys, list.Missing = u.of.merged(), u.of.missing()
	}
	return list
}

// samplingError returns half the width of an interval around a sum of a sample, in units, in which the true sum lies with
// a probability of 95 % or a little more. It takes the variance and the largest step of the sample, and is 0 for a step
// of 1.
//
// It is Rao's score interval of a Poisson count (Barker: A comparison of nine confidence intervals for a Poisson parameter,
// 2002), n + z²/2 ± z √(n + z²/4) with z = 1.96, in units: N for 1, the variance for n N². The term z²/2, by which its
// middle is larger than n, is added to both sides.
func samplingError(variance float64, step int64) int64 {
	if step <= 1 {
		return 0
	}
	const z = 1.96
	n := float64(step)
	return int64(min(math.Ceil(z*z/2*n+z*math.Sqrt(variance+z*z/4*n*n)), mostCount))
}
