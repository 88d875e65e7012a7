package limiter

import (
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Settings says what a policy allows.
type Settings struct {
	// Name is the policy's identity, [A-Za-z0-9_-]{1,64}.
	Name string

	// Algorithm is sliding_window_counter, which is the default, sliding_window_log, fixed_window, token_bucket, leaky_bucket
	// or gcra.
	Algorithm string

	// Limit is the units allowed per window, from 1.
	Limit int64

	// Window is the window's length, whole microseconds, from 1ms.
	Window time.Duration

	// Calendar makes the windows periods of the calendar: day, week, month or year, or one with where it begins, such as
	// day@06:00, week@wednesday or month@15; month@29 to month@31 begin on the last day of a shorter month. Weeks begin on
	// Monday otherwise. There is no Window then. The algorithm is fixed_window, which may be left out. Counts begin anew
	// if it changes. Default: windows of one length.
	Calendar string

	// Location is the time zone of calendar periods, nil: UTC. It must not be [time.Local], which may differ
	// from node to node. The counts of a policy go on if it changes.
	Location *time.Location

	// MaxConcurrent is the units of the requests that may run at once, up to 1,000,000,000. It counts them
	// from their start to their end, and so excludes all fields about windows and what happens in them:
	// Algorithm, Limit, Window, Calendar, Location, Burst, MaxDelay, Ban, Lease and Refunds. 0: windows count.
	MaxConcurrent int64

	// NodeTimeout is how long Redis counts the running requests of a process that it has lost contact
	// with, from 5 seconds to 10 minutes, in whole microseconds. Only with MaxConcurrent; 0 is 15 seconds.
	NodeTimeout time.Duration

	// Burst is the capacity of a bucket in units, from 1; 0 means the limit. The window
	// algorithms have none.
	Burst int64

	// MaxDelay makes a bucket a queue: a request that has to wait this long or less passes with a Delay.
	// Whole microseconds; 0 is strict spacing, nil the plain bucket.
	MaxDelay *time.Duration

	// Ban refuses a client whose requests are denied BanAfter times within a window, whatever its
	// count: at its first offense for the first duration, then for the next ones, the last again and
	// again. Offenses are forgotten the longest duration after a ban has ended. Each from a
	// second to 365 days, in whole microseconds and ascending, at most 16; none: no client is banned.
	Ban []time.Duration

	// BanAfter is how many denials are an offense, up to 1,000; 0 is 1.
	BanAfter int

	// Lease lets failover.Store take units of keys that are asked for again and again ahead of their requests,
	// and decide these by itself: for at most so long, and at most a hundredth of the window. From
	// 5 ms to a second; 0: every request is decided by the shared store. Never is more admitted
	// than without. Policies that ban, queue or refund have none.
	Lease time.Duration

	// Refunds allows takes of the policy to be refunded, see [Check].Refundable. A denial may then end early, so
	// the deny cache leaves the policy out, except for bans. It excludes MaxDelay, Lease and MaxConcurrent.
	Refunds bool

	// Dynamic reports that requests bring limits and bursts of their own, as a Caddyfile with placeholders does.
	// Windows of an hour and more then count in milliseconds whatever the limit, so that large and
	// small limits use the same states.
	Dynamic bool
}

// Policy is checked settings. [NewPolicy] makes one. It is safe for concurrent use.
type Policy struct{ policy *limiter.Policy }

// NewPolicy returns the policy of settings. The error is a [*FieldError], joined with others where several fields are
// wrong.
func NewPolicy(s Settings) (*Policy, error) {
	policy, err := limiter.NewPolicy(s.internal())
	if err != nil {
		return nil, err
	}
	return &Policy{policy}, nil
}

// internal returns the settings as this module knows them. Requests of libraries do not wait in turns.
func (s *Settings) internal() limiter.Settings {
	return limiter.Settings{
		Name: s.Name, Algorithm: s.Algorithm, Limit: s.Limit, Window: s.Window, Calendar: s.Calendar, Location: s.Location,
		MaxConcurrent: s.MaxConcurrent, NodeTimeout: s.NodeTimeout, Burst: s.Burst, MaxDelay: s.MaxDelay,
		Ban: s.Ban, BanAfter: s.BanAfter, Lease: s.Lease, Refunds: s.Refunds, Dynamic: s.Dynamic,
	}
}

// Internal returns the policy as this module's stores know it.
func (p *Policy) Internal() *limiter.Policy { return p.policy }

// Name returns the policy's name.
func (p *Policy) Name() string { return p.policy.Name() }

// Capacity returns the most units that a quota can have: the limit, for buckets the burst.
func (p *Policy) Capacity() int64 { return p.policy.Capacity() }

// MostReserve returns the largest [Check].Reserve of the policy with which a request of one unit can pass.
func (p *Policy) MostReserve() int64 { return p.policy.MostReserve() }
