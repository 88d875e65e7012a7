package replay

import (
	"container/heap"
	"math"
	"strings"
)

// maxConcurrent is what limits of running requests are called where algorithms are named.
const maxConcurrent = "max_concurrent"

// running finds out how many requests of each key ran at once, had none of them been denied. It needs the requests in
// the order of their starts. Its memory grows with the keys and with the requests that run at once. Times are
// microseconds.
type running struct {
	keys  []runningKey
	names map[string]int32
	ends  runningEnds
	now   int64

	together, mostTogether, togetherAt int64 // of all keys
	requests, untimed                  int64
}

// runningKey is one key: what is running now, and how much did at most.
type runningKey struct {
	now, peak, peakAt, requests int64
}

// runningEnd is the end of a request that is running.
type runningEnd struct {
	at, weight int64
	key        int32
}

// runningEnds is a heap, the next end first.
type runningEnds []*runningEnd

func (h runningEnds) Len() int           { return len(h) }
func (h runningEnds) Less(i, j int) bool { return h[i].at < h[j].at }
func (h runningEnds) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runningEnds) Push(end any) {
	*h = append(*h, end.(*runningEnd)) //nolint:forcetypeassert,errcheck // the heap holds nothing else
}
func (h *runningEnds) Pop() any {
	last := len(*h) - 1
	end := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return end
}

func newRunning() *running {
	return &running{names: map[string]int32{}}
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
	if k.now += weight; k.now > k.peak {
		k.peak, k.peakAt = k.now, began
	}
	if r.together += weight; r.together > r.mostTogether {
		r.mostTogether, r.togetherAt = r.together, began
	}
	heap.Push(&r.ends, &runningEnd{at: max(ends, began), weight: weight, key: number})
}

// advance ends the requests that end until an instant. One that ends as another begins does not run beside it.
func (r *running) advance(to int64) {
	for len(r.ends) > 0 && r.ends[0].at <= to {
		end, _ := heap.Pop(&r.ends).(*runningEnd)
		r.keys[end.key].now -= end.weight
		r.together -= end.weight
	}
	r.now = to
}
