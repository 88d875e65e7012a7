package replay

import (
	"math"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/minheap"
)

// maxConcurrent is what limits of running requests are called where algorithms are named.
const maxConcurrent = "max_concurrent"

// running finds out how many requests of each key ran at once, had none of them been denied, and how many each
// limit of a ladder would have denied. It needs the requests in the order of their starts. Its memory grows with
// the keys and with the requests that run at once. Times are microseconds.
//
// All limits that a key has never reached admit all of its requests, so that only those below its peak have a
// number of their own, as in a [column].
type running struct {
	limits []int64 // from low to high
	denied []int64 // requests, limit by limit
	keys   []runningKey
	names  map[string]int32
	ends   minheap.Heap[runningEnd]
	now    int64

	together, mostTogether, togetherAt int64 // of all keys
	requests, untimed                  int64
}

// runningKey is one key: what is running now, and how much did at most.
type runningKey struct {
	now, peak, peakAt, requests int64
	below                       []int64 // what is running under the limits below the peak
}

// runningEnd is the end of a request that is running. A set bit is a limit that denied it.
type runningEnd struct {
	at, weight int64
	denied     uint64
	key        int32
}

func newRunning(limits []int64) *running {
	r := &running{limits: limits, denied: make([]int64, len(limits)), names: map[string]int32{}}
	r.ends.Less = func(a, b *runningEnd) bool { return a.at < b.at }
	return r
}

// add adds a request that began and ended at instants, and counts as so many. An end of 0 is unknown: such a
// request only counts in requests and untimed. A start before the last one counts as the last one.
func (r *running) add(key string, began, ends, weight int64) {
	r.requests++
	if ends == 0 {
		r.untimed++
		return
	}
	began = max(began, r.now)
	r.advance(began)
	number, known := r.names[key]
	if !known {
		number = int32(len(r.keys))
		r.names[strings.Clone(key)] = number // the caller's key is part of a line
		r.keys = append(r.keys, runningKey{})
	}
	k := &r.keys[number]
	k.requests++
	weight = min(weight, math.MaxInt32) // so that sums stay exact
	if weight < 1 {
		return
	}
	denied := k.take(r.limits, weight, began)
	countBits(r.denied, denied)
	if r.together += weight; r.together > r.mostTogether {
		r.mostTogether, r.togetherAt = r.together, began
	}
	r.ends.Push(runningEnd{at: max(ends, began), weight: weight, denied: denied, key: number})
}

// take adds a request to a key, and returns the limits that deny it.
func (k *runningKey) take(limits []int64, weight, at int64) (denied uint64) {
	if total := k.now + weight; total > k.peak {
		k.peak, k.peakAt = total, at
		for len(k.below) < len(limits) && limits[len(k.below)] < total {
			k.below = append(k.below, k.now)
		}
	}
	k.now += weight
	for i := range k.below {
		if k.below[i]+weight > limits[i] {
			denied |= 1 << i
		} else {
			k.below[i] += weight
		}
	}
	return denied
}

// advance ends the requests that end until an instant. One that ends as another begins does not run beside it.
func (r *running) advance(to int64) {
	for r.ends.Len() > 0 && r.ends.First().at <= to {
		end := r.ends.Pop()
		k := &r.keys[end.key]
		k.now -= end.weight
		r.together -= end.weight
		for i := range k.below {
			if end.denied>>i&1 == 0 {
				k.below[i] -= end.weight
			}
		}
	}
	r.now = to
}
