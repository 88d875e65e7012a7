package replay

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// The sliding windows, which are tried by default.
const (
	counterName = "sliding_window_counter"
	logName     = "sliding_window_log"
)

// Suggester tries a ladder of limits on the traffic of one policy, with several algorithms. Its memory grows with
// the keys and, for the sliding window log, with the requests of a key within one window. A bucket's burst is
// the limit that is tried. The policy's own burst and max_delay are not tried.
type Suggester struct {
	result   Suggestions // without the counts below
	own      limiter.Settings
	ladder   *ladder
	names    []string // of the algorithms
	columns  []column // one each
	denied   [][]int64
	keys     map[string]int32
	running  *running // nil unless limits of running requests are tried
	busiest  int      // how many keys with the most running requests are listed
	requests int64
	last     int64 // microseconds
}

// NewSuggester returns a suggester for the traffic of a policy. It tries the algorithms in this order. Default: the
// policy's own, then the others of sliding_window_counter, sliding_window_log and a bucket. With max_concurrent among
// them, and by default, limits of requests that run at once are tried too; without a window no others are. The highest
// limit is 3,000,000, or with windows of months the highest that can be counted exactly. The key template is copied
// into the result. The error names the wrong option.
func NewSuggester(policy *limiter.Policy, keyTemplate string, algorithms []string) (*Suggester, error) {
	return newSuggester(policy, keyTemplate, algorithms, highestLimit)
}

func newSuggester(policy *limiter.Policy, keyTemplate string, algorithms []string, highest int64) (*Suggester, error) {
	own := policy.Settings()
	s := &Suggester{own: own, keys: map[string]int32{}}
	s.result = Suggestions{
		Policy: own.Name, Key: keyTemplate, Window: own.Window, Calendar: own.Calendar, TimeZone: own.Zone(), NotTried: []string{},
	}
	if len(algorithms) == 0 {
		algorithms = append(usualAlgorithms(own), maxConcurrent)
	}
	for _, algorithm := range algorithms {
		switch _, err := limiter.NewPolicy(tried(own, algorithm)); {
		case algorithm == maxConcurrent:
			atOnce, err := newLadder(time.Microsecond, own.MaxConcurrent, highest) // of any window
			if err != nil {
				return nil, err
			}
			s.running = newRunning(atOnce.limits)
			continue
		case own.Window == 0:
			return nil, fmt.Errorf("algorithm %s: it counts in a window, which policy %s does not have", algorithm, own.Name)
		case err != nil:
			return nil, optionError(err)
		}
		s.names = append(s.names, algorithm)
	}
	var err error
	if s.ladder, err = newLadder(max(own.Window, time.Microsecond), own.Limit, highest); err != nil {
		return nil, err
	}
	for _, algorithm := range s.names {
		c, err := newColumn(s.ladder, algorithm, tried(own, algorithm))
		if err != nil {
			return nil, err
		}
		s.columns = append(s.columns, c)
		s.denied = append(s.denied, make([]int64, len(s.ladder.limits)))
	}
	return s, nil
}

// tried returns the settings of an algorithm that is tried, with a limit of 1.
func tried(own limiter.Settings, algorithm string) limiter.Settings {
	return limiter.Settings{
		Name: own.Name, Algorithm: algorithm, Limit: 1, Window: own.Window, Calendar: own.Calendar, Location: own.Location,
	}
}

// optionError calls a field of the limiter's settings by the option that it comes from.
func optionError(err error) error {
	var field *limiter.FieldError
	if errors.As(err, &field) {
		return errors.New(field.Of(strings.ToLower(field.Field)))
	}
	return err
}

// usualAlgorithms returns the algorithms that are tried by default in windows. One bucket stands for all: with the
// limit as the burst and without a queue they decide alike. Calendar periods have one algorithm.
func usualAlgorithms(own limiter.Settings) []string {
	if own.Window == 0 {
		return nil
	}
	algorithms := []string{own.Algorithm}
	if own.Calendar != "" {
		return algorithms
	}
	for _, other := range []string{counterName, logName} {
		if other != own.Algorithm {
			algorithms = append(algorithms, other)
		}
	}
	if !isBucket(own.Algorithm) {
		algorithms = append(algorithms, "token_bucket")
	}
	return algorithms
}

func isBucket(algorithm string) bool {
	return slices.Contains([]string{"token_bucket", "leaky_bucket", "gcra"}, algorithm)
}

func newColumn(l *ladder, algorithm string, s limiter.Settings) (column, error) {
	switch {
	case algorithm == logName:
		return &logColumn{ladder: l}, nil
	case isBucket(algorithm):
		return &bucketColumn{ladder: l}, nil
	}
	return newWindowColumn(l, s)
}

// Add adds a request that met the policy: its key, its instant in microseconds since the Unix epoch, and its
// weight. A weight of 0 takes nothing and passes. An instant before the last one counts as the last one. A
// request whose units are refunded after its response needs room like any other, and takes nothing.
func (s *Suggester) Add(key string, micros, weight int64, returned bool) {
	s.last = max(s.last, micros)
	s.requests++
	number, known := s.keys[key]
	if !known {
		number = int32(len(s.keys))
		s.keys[strings.Clone(key)] = number // the caller's key is part of a line
		for _, c := range s.columns {
			c.grow()
		}
	}
	if weight < 1 || len(s.columns) == 0 {
		return
	}
	weight = min(weight, s.ladder.top()+1)
	for i, c := range s.columns {
		denied := c.add(int(number), s.last/s.ladder.tick, weight, returned)
		countBits(s.denied[i], denied)
	}
}

// countBits counts each bit of a mask at its index.
func countBits(counts []int64, mask uint64) {
	for ; mask != 0; mask &= mask - 1 {
		counts[bits.TrailingZeros64(mask)]++
	}
}
