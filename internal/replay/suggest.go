package replay

import (
	"errors"
	"fmt"
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

// Suggester tries a ladder of limits on the traffic of one policy, with several algorithms. It keeps a [sample] of the
// requests, and plays it at the end: its memory grows with the keys, and up to a bound with the requests. A bucket's burst
// is the limit that is tried. The policy's own burst and queue are not tried.
type Suggester struct {
	result  suggestions // without the counts below
	own     limiter.Settings
	limits  []int64  // per window, from low to high
	names   []string // of the algorithms that are tried in windows
	met     *sample  // the requests that met the policy, without those that ended before they were played
	atOnce  []int64  // limits of running requests; nil unless these are tried
	ran     *sample  // the requests whose end is known
	running *running
	busiest int   // how many keys with the most running requests are listed
	last    int64 // microseconds
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
	own := policy.Settings
	s := &Suggester{own: own, met: newSample(), ran: newSample(), running: newRunning()}
	s.result = suggestions{
		Policy: own.Name, Key: keyTemplate, Window: own.Window, Calendar: own.Calendar, TimeZone: own.Zone(), NotTried: []string{},
	}
	if len(algorithms) == 0 {
		algorithms = append(usualAlgorithms(own), maxConcurrent)
	}
	var err error
	for _, algorithm := range algorithms {
		switch _, invalid := limiter.NewPolicy(tried(own, algorithm)); {
		case algorithm == maxConcurrent:
			s.atOnce, err = newLadder(time.Microsecond, own.MaxConcurrent, highest) // of any window
			if err != nil {
				return nil, err
			}
			continue
		case own.Window == 0:
			return nil, fmt.Errorf("algorithm %s: it counts in a window, which policy %s does not have", algorithm, own.Name)
		case invalid != nil:
			return nil, optionError(invalid)
		}
		s.names = append(s.names, algorithm)
	}
	s.limits, err = newLadder(max(own.Window, time.Microsecond), own.Limit, highest)
	return s, err
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

// TriesRunning reports whether limits of running requests are tried.
func (s *Suggester) TriesRunning() bool { return s.atOnce != nil }

// afterwards is what a response makes of the units of its request.
type afterwards uint8

// What a response makes of units.
const (
	kept         afterwards = iota // they were taken, and stay
	refunded                       // they were taken, and return
	charged                        // the request looked, and is charged
	neverCharged                   // the request looked
)

// afterwards returns what the response makes of the units of a decision.
func (d *PolicyDecision) afterwards() afterwards {
	switch {
	case d.Looks && d.Returned:
		return neverCharged
	case d.Looks:
		return charged
	case d.Returned:
		return refunded
	}
	return kept
}

// add adds a request that met the policy: its key, the instants of its start and of its end in microseconds since the Unix
// epoch, and its weight. An end of 0 is unknown. A weight of 0 takes nothing and passes. A start before the last one
// counts as the last one. What becomes of the units does so at its end. Where weights are units of a
// window, each request counts as one that runs.
func (s *Suggester) add(key string, began, ends, weight int64, then afterwards) {
	s.last = max(s.last, began)
	units, back := weight, int64(0)
	if then == refunded || then == charged {
		back = max(ends, s.last)
	}
	if len(s.names) == 0 {
		units = 0 // nothing is tried on it
	}
	if then == charged || then == neverCharged {
		units = -units
	}
	s.met.add(key, s.last, back, units)
	if !s.TriesRunning() {
		return
	}
	if s.own.MaxConcurrent == 0 {
		weight = 1
	}
	s.running.add(key, s.last, ends, weight)
	if ends > 0 {
		s.ran.add(key, s.last, max(ends, s.last), weight)
	}
}
