package limiter

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/kernel"
)

const onlyBuckets = " has none; only token_bucket, leaky_bucket and gcra do"

// check reports which field is wrong by itself, or for the algorithm, which is nil for an unknown one.
func (s *Settings) check(a *kernel.Algorithm) error {
	switch {
	case !ValidName(s.Name):
		return &FieldError{"Name", strconv.Quote(s.Name), "use 1 to 64 letters, digits, '_' and '-'"}
	case s.MaxConcurrent != 0 || s.NodeTimeout != 0 || s.Waits:
		return s.checkRunning()
	case a == nil:
		return &FieldError{"Algorithm", strconv.Quote(s.Algorithm), fmt.Sprintf("use one of %v", Algorithms())}
	case s.Limit < 1:
		return &FieldError{"Limit", decimal(s.Limit), "use a whole number from 1"}
	case s.checkCalendar() != nil:
		return s.checkCalendar()
	case s.Window < minWindow || s.Window%time.Microsecond != 0:
		return &FieldError{"Window", s.Window.String(), fmt.Sprintf("use a duration from %v, in whole microseconds", minWindow)}
	case s.Burst < 0:
		return &FieldError{"Burst", decimal(s.Burst), "use a whole number from 1"}
	case s.Burst > 0 && !a.Bursts:
		return &FieldError{"Burst", "", a.Name + onlyBuckets}
	case s.MaxDelay != nil && !a.Bursts:
		return &FieldError{"MaxDelay", "", a.Name + onlyBuckets}
	case s.MaxDelay != nil && (*s.MaxDelay < 0 || *s.MaxDelay%time.Microsecond != 0):
		return &FieldError{"MaxDelay", s.MaxDelay.String(), "use a duration from 0, in whole microseconds"}
	}
	return cmp.Or(s.checkLease(a), s.checkBan(), s.checkRefunds())
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// ValidName reports whether a text may be [Settings].Name.
func ValidName(name string) bool {
	for _, r := range []byte(name) {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (r < '0' || r > '9') && r != '_' && r != '-' {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= 64
}

// checkBan reports what is wrong with the settings of bans.
func (s *Settings) checkBan() error {
	switch {
	case len(s.Ban) == 0 && s.BanAfter != 0:
		return &FieldError{"BanAfter", decimal(int64(s.BanAfter)), "there are no durations of bans; add some, or leave it out"}
	case len(s.Ban) > MaxBans:
		return &FieldError{"Ban", "",
			"there are " + decimal(int64(len(s.Ban))) + " durations; use at most " + decimal(MaxBans) + ", of which the last goes on"}
	case s.BanAfter < 0 || s.BanAfter > MaxBanAfter:
		return &FieldError{"BanAfter", decimal(int64(s.BanAfter)), "use a whole number of denials from 1 to " + decimal(MaxBanAfter)}
	}
	for i, d := range s.Ban {
		switch {
		case d < MinBan || d > MaxBan || d%time.Microsecond != 0:
			return &FieldError{"Ban", d.String(), "use durations from 1s to 365d, in whole microseconds"}
		case i > 0 && d < s.Ban[i-1]:
			return &FieldError{"Ban", d.String(),
				"shorter than the duration before it; each is for the next offense, so write them in ascending order"}
		}
	}
	return nil
}

// checkCalendar reports what is wrong with the settings of calendar periods.
func (s *Settings) checkCalendar() error {
	switch {
	case s.Calendar == "" && s.Location != nil:
		return &FieldError{"Location", s.Location.String(), "only calendar periods have a time zone; set Calendar too, or leave it out"}
	case s.Calendar == "":
		return nil
	case s.longestPeriod() == 0:
		return &FieldError{"Calendar", strconv.Quote(s.Calendar), fmt.Sprintf("use one of %v, "+
			"or one with where it begins, such as day@06:00, week@wednesday or month@15", Calendars())}
	case s.Algorithm != FixedWindow:
		return &FieldError{"Algorithm", s.Algorithm, "calendar periods are counted by " + FixedWindow + " alone; leave the algorithm out"}
	case s.Window != s.longestPeriod():
		return &FieldError{"Window", s.Window.String(), "a calendar period is a window of its own; leave one of them out"}
	case s.Location == time.Local:
		return &FieldError{"Location", "Local", "nodes may differ in it; name a time zone such as Europe/Berlin"}
	case s.Limit > MaxCharge:
		return &FieldError{"Limit", decimal(s.Limit), "use a number up to 2^52"}
	}
	return nil
}

// checkLease reports what is wrong with the settings of leases.
func (s *Settings) checkLease(a *kernel.Algorithm) error {
	switch {
	case s.Lease == 0:
		return nil
	case s.Lease < MinLease || s.Lease > MaxLease:
		return &FieldError{"Lease", s.Lease.String(), "use a duration from 5ms to 1s"}
	case s.Calendar != "":
		return &FieldError{"Lease, Window", s.Calendar, "a node may know the end of a calendar period less exactly than a lease " +
			"lasts; leave the lease out, or use a window such as 720h"}
	case s.Dynamic && a.Earns:
		return &FieldError{"Lease, Algorithm", a.Name, "units that were leased under a low limit would drain too fast under a " +
			"higher one of the same key; use fixed limits, no lease, or another algorithm"}
	case s.MaxDelay != nil:
		return &FieldError{"Lease, MaxDelay", "",
			"how long a queue holds a request depends on all requests before it; leave one of them out"}
	case len(s.Ban) > 0:
		return &FieldError{"Lease, Ban", "", "Redis counts denials, and sees none of a request that a node decides; leave one of them out"}
	}
	return nil
}

// checkRefunds reports what is wrong with refunds beside the other settings.
func (s *Settings) checkRefunds() error {
	switch {
	case s.Refunds && s.MaxDelay != nil:
		return &FieldError{"MaxDelay, Refunds", "", "a queue cannot refund; leave one of them out"}
	case s.Refunds && s.Lease > 0:
		return &FieldError{"Lease, Refunds", "", "units that a node has leased cannot be refunded; leave one of them out"}
	}
	return nil
}

// checkRunning reports what is wrong with the settings of a policy that counts running requests, or with one
// that has a node timeout without it.
func (s *Settings) checkRunning() error {
	switch {
	case s.MaxConcurrent == 0 && s.Waits:
		return &FieldError{"Waits, MaxConcurrent", "", "requests wait for others to end; leave the first out, or set both"}
	case s.MaxConcurrent == 0:
		return &FieldError{"NodeTimeout, MaxConcurrent", "", "the first belongs to the second; leave it out, or set both"}
	case s.MaxConcurrent < 0 || s.MaxConcurrent > MaxRunning:
		return &FieldError{"MaxConcurrent", decimal(s.MaxConcurrent), "use a whole number from 1 to " + decimal(MaxRunning)}
	case s.NodeTimeout < MinNodeTimeout || s.NodeTimeout > maxNodeTimeout || s.NodeTimeout%time.Microsecond != 0:
		return &FieldError{"NodeTimeout", s.NodeTimeout.String(), "use a duration from 5s to 10m, in whole microseconds"}
	}
	for _, other := range []struct {
		field string
		given bool
	}{
		{"Limit", s.Limit != 0}, {"Window", s.Window != 0 || s.Calendar != ""}, {"Location", s.Location != nil},
		{"Algorithm", s.Algorithm != ""},
		{"Burst", s.Burst != 0}, {"MaxDelay", s.MaxDelay != nil}, {"Ban", len(s.Ban) > 0 || s.BanAfter != 0}, {"Lease", s.Lease != 0},
		{"Refunds", s.Refunds},
	} {
		if other.given {
			return besideRunning(other.field)
		}
	}
	return nil
}

// besideRunning returns the error of what has no meaning beside MaxConcurrent.
func besideRunning(field string) error {
	return &FieldError{field + ", MaxConcurrent", "", "a request counts from its start to its end, whatever came before it and " +
		"whatever its response is; leave out one of them, or give each a policy of its own"}
}

// newParams converts the settings to ticks: microseconds if the formulas stay exact with them, else
// milliseconds. The condition is 2 * max(limit, burst) * window < 2^53 ticks, so that every
// intermediate value is a whole number that a double holds. The tick is at least leastTick.
func newParams(s Settings, a *kernel.Algorithm, leastTick int64) (kernel.Params, error) {
	switch {
	case s.Calendar != "":
		return newCalendarParams(s), nil
	case s.MaxConcurrent != 0:
		timeout := s.NodeTimeout.Microseconds()
		return kernel.Params{Limit: s.MaxConcurrent, Capacity: s.MaxConcurrent, MaxDelay: kernel.NoQueue, Tick: leastTick, Window: timeout,
			Full: timeout}, nil
	}
	t := kernel.Params{Limit: s.Limit, Capacity: s.Limit, MaxDelay: kernel.NoQueue, Tick: leastTick}
	if s.Burst > 0 {
		t.Capacity = s.Burst
	}
	most, field := t.Limit, "Limit"
	if t.Capacity > t.Limit {
		most, field = t.Capacity, "Burst"
	}
	if a.MaxLimit > 0 && most > a.MaxLimit {
		return t, &FieldError{"Limit", decimal(most),
			fmt.Sprintf("%s counts up to %d; use a smaller limit or another algorithm", a.Name, a.MaxLimit)}
	}
	micros := s.Window.Microseconds()
	if !kernel.Exact(most, micros) || (a.MaxWindow > 0 && micros > a.MaxWindow) || s.widelyDynamic() {
		t.Tick = 1000
	}
	if micros%t.Tick != 0 || (s.MaxDelay != nil && s.MaxDelay.Microseconds()%t.Tick != 0) {
		return t, &FieldError{field, decimal(most),
			fmt.Sprintf("numbers this large in a window of %v are counted in milliseconds; use durations in whole milliseconds", s.Window)}
	}
	t.Window = micros / t.Tick
	if !kernel.Exact(most, t.Window) {
		return t, &FieldError{field, decimal(most), tooMuchFor(s.Window, (kernel.Precision/2-1)/t.Window)}
	}
	if a.MaxWindow > 0 && t.Window > a.MaxWindow {
		return t, &FieldError{"Window", s.Window.String(),
			fmt.Sprintf("%s remembers up to %d milliseconds; use a shorter window or another algorithm", a.Name, a.MaxWindow)}
	}
	if s.MaxDelay != nil {
		t.MaxDelay = s.MaxDelay.Microseconds() / t.Tick
	}
	if t.Full = kernel.CeilDiv(t.Capacity*t.Window, t.Limit); t.Full > kernel.Precision/2/t.Tick {
		if s.Burst == 0 {
			return t, &FieldError{"Window", s.Window.String(), "must be below 2^52 microseconds (142 years); use a shorter one"}
		}
		return t, &FieldError{"Burst", "",
			"the time to earn it must be below 2^52 microseconds (142 years); use a smaller burst or a shorter window"}
	}
	t.MaxDebt = kernel.MostDebt(t.Limit, t.Tick)
	if t.MaxDelay > kernel.Precision/2/t.Tick {
		return t, &FieldError{"MaxDelay", s.MaxDelay.String(), "must be below 2^52 microseconds (142 years); use a shorter one"}
	}
	return t, nil
}

// tooMuchFor says which number is the largest that is exact in a window, and what counts more.
func tooMuchFor(window time.Duration, largest int64) string {
	return fmt.Sprintf("use at most %d with a window of %v; a limit of a calendar period, such as window day, may be up to 2^52",
		largest, window)
}

// widelyDynamic reports whether the limits that requests bring along may need milliseconds.
func (s *Settings) widelyDynamic() bool {
	return s.Dynamic && s.Window >= time.Hour && s.Window%time.Millisecond == 0 &&
		(s.MaxDelay == nil || *s.MaxDelay%time.Millisecond == 0)
}

// newCalendarParams are the numbers of a policy that counts in calendar periods: in microseconds, and
// without products of units and times, so that any limit is exact.
func newCalendarParams(s Settings) kernel.Params {
	return kernel.Params{
		Limit: s.Limit, Capacity: s.Limit, MaxDelay: kernel.NoQueue, Tick: 1,
		Window: s.Window.Microseconds(), Full: s.Window.Microseconds(), MaxDebt: MaxCharge,
		Periods: kernel.NewPeriods(s.calendar(), s.Location),
	}
}
