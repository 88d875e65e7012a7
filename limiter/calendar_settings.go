package limiter

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/calendar"
)

// Calendars lists the calendar periods that [Settings.Calendar] may name, the shortest first.
func Calendars() []string {
	var names []string
	for _, unit := range calendar.Units() {
		names = append(names, string(unit))
	}
	return names
}

// calendarAlgorithm counts in calendar periods. To users it is [FixedWindow] with another kind of window.
var calendarAlgorithm = algorithm{name: FixedWindow, code: "p", script: "calendar", kernel: calendarWindow{}}

// algorithm returns the algorithm of the settings, nil for an unknown one.
func (s *Settings) algorithm() *algorithm {
	switch {
	case s.MaxConcurrent != 0:
		return &runningAlgorithm
	case s.Calendar != "" && s.Algorithm == FixedWindow:
		return &calendarAlgorithm
	}
	return algorithmNamed(s.Algorithm)
}

// setDefaults fills in what the settings leave out.
func (s *Settings) setDefaults() {
	if s.MaxConcurrent != 0 {
		return
	}
	if s.Calendar != "" {
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

// longestPeriod returns the nominal length of the longest calendar period.
func (s *Settings) longestPeriod() time.Duration {
	return time.Duration(calendar.Unit(s.Calendar).Days()) * 24 * time.Hour
}

// checkCalendar reports what is wrong with the settings of calendar periods.
func (s *Settings) checkCalendar() error {
	switch {
	case s.Calendar == "" && s.Location != nil:
		return &FieldError{"Location", s.Location.String(), "only calendar periods have a time zone; set Calendar too, or leave it out"}
	case s.Calendar == "":
		return nil
	case s.longestPeriod() == 0:
		return &FieldError{"Calendar", strconv.Quote(s.Calendar), fmt.Sprintf("use one of %v", Calendars())}
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

// newCalendarParams are the numbers of a policy that counts in calendar periods: in microseconds, and
// without products of units and times, so that any limit is exact.
func newCalendarParams(s Settings) params {
	return params{
		limit: s.Limit, capacity: s.Limit, maxDelay: -1, tick: 1,
		window: s.Window.Microseconds(), full: s.Window.Microseconds(), maxDebt: MaxCharge,
		periods: calendar.New(calendar.Unit(s.Calendar), s.Location),
	}
}

// sameCalendar reports whether two settings have the same calendar periods. Time zones of one name are the
// same.
func (s *Settings) sameCalendar(other *Settings) bool {
	return s.Calendar == other.Calendar && (s.Calendar == "" || s.Zone() == other.Zone())
}

// Zone returns the name of the time zone of calendar periods, empty where there are none.
func (s *Settings) Zone() string {
	switch {
	case s.Calendar == "":
		return ""
	case s.Location == nil:
		return time.UTC.String()
	}
	return s.Location.String()
}

// by returns the policy with its calendar periods by a clock that Redis's is so many microseconds ahead of.
func (p *Policy) by(ahead int64) *Policy {
	t := p.params
	t.periods = t.periods.By(ahead)
	other := &Policy{settings: p.settings, algorithm: p.algorithm, params: t, id: p.id, ban: p.ban, fraction: p.fraction, ahead: ahead}
	other.refunds.Store(p.refunds.Load())
	return other
}
