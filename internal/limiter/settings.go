package limiter

import (
	"cmp"
	"fmt"
	"reflect"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

// Settings says what a policy allows.
type Settings struct {
	// Name is the policy's identity, [A-Za-z0-9_-]{1,64}.
	Name string

	// Algorithm is one of [Algorithms]; empty: [DefaultAlgorithm].
	Algorithm string

	// Limit is the units allowed per window, from 1.
	Limit int64

	// Window is the window's length, whole microseconds, from 1ms.
	Window time.Duration

	// Calendar makes the windows periods of the calendar: one of [Calendars], or one with where it begins, such as
	// day@06:00, week@wednesday or month@15; month@29 to month@31 begin on the last day of a shorter month. Weeks begin on
	// Monday otherwise. There is no Window then; [Policy.Settings] has the length of the longest period in its place. The
	// algorithm is [FixedWindow], which may be left out. Counts begin anew if it changes. Default: windows of one length.
	Calendar string

	// Location is the time zone of calendar periods, nil: UTC. It must not be [time.Local], which may differ
	// from node to node. The counts of a policy go on if it changes.
	Location *time.Location

	// MaxConcurrent is the units of the requests that may run at once, up to 1,000,000,000. It counts them
	// from their start to their end, and so excludes all fields about windows and what happens in them:
	// Algorithm, Limit, Window, Calendar, Location, Burst, MaxDelay, Ban, Lease and Refunds. 0: windows count.
	MaxConcurrent int64

	// NodeTimeout is how long Redis counts the running requests of a process that it has lost contact
	// with, from [MinNodeTimeout] to [maxNodeTimeout], in whole microseconds. Only with MaxConcurrent; 0
	// is [DefaultNodeTimeout].
	NodeTimeout time.Duration

	// Waits has requests wait for units of running requests in turns: waiting.Queue.Join. They count in states of
	// their own. Only with MaxConcurrent.
	Waits bool

	// Burst is the capacity of a bucket in units, from 1; 0 means the limit. The window
	// algorithms have none.
	Burst int64

	// MaxDelay makes a bucket a queue: a request that has to wait this long or less passes with a Delay.
	// Whole microseconds; 0 is strict spacing, nil the plain bucket.
	MaxDelay *time.Duration

	// Ban refuses a client whose requests are denied BanAfter times within a window, whatever its
	// count: at its first offense for the first duration, then for the next ones, the last again and
	// again. Offenses are forgotten the longest duration after a ban has ended. Each from [MinBan] to
	// [MaxBan], in whole microseconds and ascending, at most [MaxBans]; none: no client is banned.
	Ban []time.Duration

	// BanAfter is how many denials are an offense, up to [MaxBanAfter]; 0 is 1.
	BanAfter int

	// Lease lets failover.Store take units of keys that are asked for again and again ahead of their requests,
	// and decide these alone. A lease lasts this long at most, and at most a hundredth of the window. From
	// [MinLease] to [MaxLease]; 0: every request is decided by the shared store. Never is more admitted
	// than without. Policies that ban, queue or refund have none.
	Lease time.Duration

	// Refunds allows takes of the policy to be refunded, see [Check].Refundable. A denial may then end early, so
	// the deny cache leaves the policy out, except for bans. It excludes MaxDelay, Lease and MaxConcurrent.
	Refunds bool

	// Dynamic reports that requests bring limits and bursts of their own, see [Policy.WithLimit].
	// Windows of an hour and more then count in milliseconds whatever the limit, so that large and
	// small limits use the same states.
	Dynamic bool
}

// setDefaults fills in what the settings leave out.
func (s *Settings) setDefaults() {
	if s.MaxConcurrent != 0 {
		s.NodeTimeout = cmp.Or(s.NodeTimeout, DefaultNodeTimeout)
		return
	}
	if s.Calendar != "" {
		if IsCalendar(s.Calendar) {
			s.Calendar = s.calendar().String() // month@1 is month
		}
		if s.Algorithm == "" {
			s.Algorithm = FixedWindow
		}
		if s.Location == nil {
			s.Location = time.UTC
		}
		if s.Window == 0 {
			s.Window = s.longestPeriod()
		}
	}
	if s.Algorithm == "" {
		s.Algorithm = DefaultAlgorithm
	}
}

// algorithm returns the algorithm of the settings, nil for an unknown one.
func (s *Settings) algorithm() *kernel.Algorithm {
	switch {
	case s.Waits:
		return &kernel.WaitingAlgorithm
	case s.MaxConcurrent != 0:
		return &kernel.RunningAlgorithm
	case s.Calendar != "" && s.Algorithm == FixedWindow:
		return &kernel.CalendarAlgorithm
	}
	return kernel.Named(s.Algorithm)
}

// calendar returns the calendar of the settings, the zero value where there is none or it is unknown.
func (s *Settings) calendar() kernel.Calendar {
	c, _ := kernel.ParseCalendar(s.Calendar)
	return c
}

// longestPeriod returns the nominal length of the longest calendar period, 0 for an unknown one.
func (s *Settings) longestPeriod() time.Duration {
	return time.Duration(s.calendar().Unit.Days()) * 24 * time.Hour
}

// Equal reports whether two settings allow the same. It compares all fields, so that none can be forgotten.
func (s Settings) Equal(other Settings) bool {
	return s.Zone() == other.Zone() && reflect.DeepEqual(s.uniform(), other.uniform())
}

// uniform returns the settings with one form for what may be written in several. The time zone is missing, since zones of
// one name are the same.
func (s Settings) uniform() Settings {
	s.setDefaults()
	s.Location, s.BanAfter = nil, max(1, s.BanAfter)
	if len(s.Ban) == 0 {
		s.Ban = nil
	}
	return s
}

// Queues reports whether requests are held until their turn: MaxDelay.
func (s *Settings) Queues() bool { return s.MaxDelay != nil }

// String returns the settings as text, for messages.
func (s Settings) String() string {
	if s.MaxConcurrent != 0 {
		s.setDefaults()
		text := fmt.Sprintf("max_concurrent %d, node_timeout %v", s.MaxConcurrent, s.NodeTimeout)
		if s.Waits {
			text += ", wait"
		}
		return text
	}
	window := s.Window.String()
	if s.Calendar != "" {
		window = s.Calendar + " " + s.Zone()
	}
	text := fmt.Sprintf("limit %d, window %s, algorithm %s", s.Limit, window, s.Algorithm)
	if s.Burst > 0 {
		text += fmt.Sprintf(", burst %d", s.Burst)
	}
	if s.MaxDelay != nil {
		text += fmt.Sprintf(", max_delay %v", *s.MaxDelay)
	}
	if len(s.Ban) > 0 {
		text += fmt.Sprintf(", ban %v after %d", s.Ban, max(1, s.BanAfter))
	}
	if s.Lease > 0 {
		text += fmt.Sprintf(", lease %v", s.Lease)
	}
	return text
}

// Zone returns the name of the time zone of calendar periods, empty if there are none.
func (s *Settings) Zone() string {
	switch {
	case s.Calendar == "":
		return ""
	case s.Location == nil:
		return time.UTC.String()
	}
	return s.Location.String()
}

// The algorithms' names. See the README for how to choose, and the file of each for its formulas.
const (
	SlidingWindowCounter = "sliding_window_counter" // two aligned windows estimate a sliding one
	SlidingWindowLog     = "sliding_window_log"     // exact; keeps an entry per request
	FixedWindow          = "fixed_window"           // aligned windows; up to twice the limit around a boundary
	TokenBucket          = "token_bucket"           // refills steadily up to the burst
	LeakyBucket          = "leaky_bucket"           // as TokenBucket, by the level of what was taken
	GCRA                 = "gcra"                   // as TokenBucket, by arrival times
)

// DefaultAlgorithm is the algorithm of a policy without one.
const DefaultAlgorithm = SlidingWindowCounter

// Algorithms lists the names of the algorithms, the default first.
func Algorithms() []string {
	names := make([]string, len(kernel.Registry))
	for i := range kernel.Registry {
		names[i] = kernel.Registry[i].Name
	}
	return names
}

// minWindow is the shortest window.
const minWindow = time.Millisecond

// MinLease is the shortest duration of [Settings.Lease]. Shorter leases would save nothing.
const MinLease = 5 * time.Millisecond

// MaxLease is the longest one, and the longest that a lease lasts whatever the window.
const MaxLease = kernel.MaxLease

const (
	// MinBan is the shortest duration of [Settings.Ban].
	MinBan = time.Second

	// MaxBan is the longest one.
	MaxBan = 365 * 24 * time.Hour

	// MaxBans is how many durations there may be.
	MaxBans = 16

	// MaxBanAfter is the largest [Settings.BanAfter].
	MaxBanAfter = 1000
)

const (
	// MinNodeTimeout is the shortest [Settings].NodeTimeout.
	MinNodeTimeout = 5 * time.Second

	// maxNodeTimeout is the longest one.
	maxNodeTimeout = 10 * time.Minute

	// DefaultNodeTimeout is what a NodeTimeout of 0 means.
	DefaultNodeTimeout = 15 * time.Second

	// MaxRunning is the largest [Settings].MaxConcurrent.
	MaxRunning = 1_000_000_000
)

// IsCalendar reports whether [Settings.Calendar] may have a text.
func IsCalendar(text string) bool {
	_, ok := kernel.ParseCalendar(text)
	return ok
}

// Weekdays lists the days that weeks may begin on, as [Settings.Calendar] names them, from Monday.
func Weekdays() []string { return kernel.Weekdays }

// Calendars lists the calendar periods that [Settings.Calendar] may name, the shortest first.
func Calendars() []string {
	var names []string
	for _, unit := range kernel.Units() {
		names = append(names, string(unit))
	}
	return names
}
