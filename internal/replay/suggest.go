package replay

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// SuggestOptions say what a [Suggester] tries.
type SuggestOptions struct {
	// Algorithms are those to try, in this order. Default: the policy's own, then of
	// sliding_window_counter, sliding_window_log and a bucket those that are missing.
	Algorithms []string

	// Window is the window to try. Default: the policy's own.
	Window time.Duration

	// MaxLimit is the highest limit to try, in units. Default, and the most: 3,000,000, or with windows
	// of months the highest that can be counted exactly.
	MaxLimit int64
}

// Suggester tries a ladder of limits on the traffic that one policy met, with several algorithms. What
// it keeps grows with the keys and, for the sliding window log, with the requests of a key within one
// window. A bucket's burst is the limit that is tried; the policy's own burst and max_delay are not.
type Suggester struct {
	result    Suggestions // but for what is counted below
	own       limiter.Settings
	otherKeys bool // than the policy's own were told
	ladder    *ladder
	names     []string // of the algorithms
	columns   []column // one each
	denied    [][]int64
	differ    *differences // nil unless both algorithms are tried
	keys      map[string]int32
	requests  int64
	last      int64 // microseconds
}

// NewSuggester returns a suggester for the traffic that a policy met. The template of its key is only
// passed on. The error says which option is wrong.
func NewSuggester(policy *limiter.Policy, keyTemplate string, o SuggestOptions) (*Suggester, error) {
	own := policy.Settings()
	o, err := o.completed(own)
	if err != nil {
		return nil, err
	}
	ladder, err := newLadder(o.Window, own.Limit, o.MaxLimit)
	if err != nil {
		return nil, err
	}
	s := &Suggester{own: own, ladder: ladder, names: o.Algorithms, keys: map[string]int32{}}
	s.result = Suggestions{Policy: own.Name, Key: keyTemplate, Window: o.Window, NotTried: []string{}}
	for _, algorithm := range o.Algorithms {
		c, err := newColumn(ladder, algorithm)
		if err != nil {
			return nil, err
		}
		s.columns = append(s.columns, c)
		s.denied = append(s.denied, make([]int64, len(ladder.limits)))
	}
	s.differ = newDifferences(s.names, len(ladder.limits))
	return s, nil
}

// completed puts the defaults in and checks the rest.
func (o SuggestOptions) completed(own limiter.Settings) (SuggestOptions, error) {
	switch {
	case o.MaxLimit < 0 || o.MaxLimit > highestLimit:
		return o, fmt.Errorf("highest limit %d: use a whole number from 1 to %d", o.MaxLimit, highestLimit)
	case o.MaxLimit == 0:
		o.MaxLimit = highestLimit
	}
	if o.Window == 0 {
		o.Window = own.Window
	}
	if len(o.Algorithms) == 0 {
		o.Algorithms = usualAlgorithms(own.Algorithm)
	}
	for _, algorithm := range o.Algorithms {
		if _, err := limiter.NewPolicy(limiter.Settings{Name: own.Name, Algorithm: algorithm, Limit: 1, Window: o.Window}); err != nil {
			return o, err
		}
	}
	return o, nil
}

// usualAlgorithms are those tried by default. One bucket stands for all, because with the limit as the
// burst and without a queue they decide alike.
func usualAlgorithms(own string) []string {
	algorithms := []string{own}
	for _, other := range []string{counterName, logName} {
		if other != own {
			algorithms = append(algorithms, other)
		}
	}
	if !isBucket(own) {
		algorithms = append(algorithms, "token_bucket")
	}
	return algorithms
}

func isBucket(algorithm string) bool {
	return slices.Contains([]string{"token_bucket", "leaky_bucket", "gcra"}, algorithm)
}

func newColumn(l *ladder, algorithm string) (column, error) {
	switch {
	case algorithm == logName:
		return &logColumn{ladder: l}, nil
	case isBucket(algorithm):
		return &bucketColumn{ladder: l}, nil
	}
	return newWindowColumn(l, algorithm)
}

// Add tells of a request that met the policy: its key, when in microseconds since the Unix epoch, and its
// weight, of which 0 asks for nothing and passes. An instant before the last one counts as that. One
// whose units are returned after its response needs room as any other does, and leaves nothing behind
// where it is admitted.
func (s *Suggester) Add(key string, micros, weight int64, returned bool) {
	s.last = max(s.last, micros)
	s.requests++
	number, known := s.keys[key]
	if !known {
		number = int32(len(s.keys))
		s.keys[strings.Clone(key)] = number // the caller's is part of a line
		for _, c := range s.columns {
			c.grow()
		}
	}
	if weight < 1 {
		return
	}
	weight = min(weight, s.ladder.top()+1)
	for i, c := range s.columns {
		denied := c.add(int(number), s.last/s.ladder.tick, weight, returned)
		countBits(s.denied[i], denied)
		s.differ.note(i, denied)
	}
	s.differ.count()
}

// countBits counts each bit of a mask in its place.
func countBits(counts []int64, mask uint64) {
	for ; mask != 0; mask &= mask - 1 {
		counts[bits.TrailingZeros64(mask)]++
	}
}
