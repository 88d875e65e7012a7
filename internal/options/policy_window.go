package options

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

// This file has what the row of window does in policyOptions.

const windowForm = "<duration> | day[@<time>]|week[@<weekday>]|month[@<day>]|year [<time zone>] | month@<placeholder> <n> [<time zone>]"

// besideDayFrom are the options that a placeholder of a month's day cannot have beside it.
var besideDayFrom = []exclusion[Policy]{
	{(*Policy).challenges, "challenge, window: passes have no months of a client's own; leave out challenge, or the placeholder of the day"},
	{func(p *Policy) bool { return p.Ban != nil },
		"ban, window: a ban goes with the months of one day; give ban a policy of its own, or leave out the placeholder of the day"},
}

// checkWindow refuses a policy without a window, with two, or with a time zone and no calendar.
func (p *Policy) checkWindow() error {
	switch {
	case p.Algorithm != "" && !slices.Contains(limiter.Algorithms(), p.Algorithm): // the limiter's error is about that
		return nil
	case p.Window == 0 && p.Calendar == "" && !p.countsRunning():
		return errors.New("window: missing or zero; use a duration from 1ms such as 1m, or a calendar period such as month")
	case p.Window != 0 && p.Calendar != "":
		return errors.New("window, calendar: a policy has one of them; leave one out")
	case p.TimeZone != "" && p.Calendar == "":
		return fmt.Errorf("time_zone %s: only a calendar has one; set calendar instead of window, or leave time_zone out",
			secretfile.Redact(p.TimeZone))
	case p.CalendarStart+p.CalendarStartFrom != "" && p.Calendar == "":
		return fmt.Errorf("calendar_start %s: only a calendar has one; set calendar instead of window, or leave calendar_start out",
			secretfile.Redact(p.CalendarStart+p.CalendarStartFrom))
	case strings.Contains(p.Calendar, startMark):
		return fmt.Errorf("calendar %s: in JSON the start has a field of its own; write calendar month with calendar_start 15",
			shownPeriod(p.Calendar))
	}
	var err error
	if p.CalendarStartFrom != "" {
		err = checkDayFrom(p.Calendar, p.CalendarStartFrom, p.CalendarStart)
	}
	if err == nil && isPeriod(p.calendar()) {
		err = checkPeriod(p.calendar())
	}
	if err == nil {
		_, err = p.location()
	}
	return err
}

// location returns the time zone of calendar periods, nil if there is none.
func (p *Policy) location() (*time.Location, error) {
	if p.Calendar == "" || p.TimeZone == "" {
		return nil, nil //nolint:nilnil // the limiter's default
	}
	location, err := time.LoadLocation(p.TimeZone)
	if err != nil || location == time.Local {
		return nil, fmt.Errorf("time zone %s: unknown; use a name such as Europe/Berlin or UTC, which is the same on every node",
			secretfile.Redact(p.TimeZone))
	}
	return location, nil
}

// settleWindow sets the window or the calendar period, whose time zone was checked before.
func (p *Policy) settleWindow(s *limiter.Settings) {
	s.Window, s.Calendar = time.Duration(p.Window), p.calendar()
	s.Location, _ = p.location()
}

// applyDayFrom parses the placeholder of the day on which a client's months begin.
func (p *Policy) applyDayFrom(r *rule.Rule) (err error) {
	r.Numbers.DayFrom, err = rule.ParseDay(p.CalendarStartFrom)
	return err
}

func (p *Policy) tellWindow(t *telling) {
	s := &t.rule.Policy.Settings
	t.policy.Window, t.policy.Calendar, t.policy.TimeZone = display.DurationSeconds(p.Window), s.Calendar, s.Zone()
	t.policy.CalendarStartFrom = p.CalendarStartFrom
}

// startMark separates a calendar period from where it begins: month@15.
const startMark = "@"

// calendar returns the calendar period with its start, as a Caddyfile has it; empty: there is none.
func (p *Policy) calendar() string {
	if p.CalendarStart == "" {
		return p.Calendar
	}
	return p.Calendar + startMark + p.CalendarStart
}

// isCalendar reports whether a word is a calendar period, alone or with where it begins.
func isCalendar(word string) bool { return limiter.IsCalendar(word) }

// isPeriod reports whether a word is meant for a calendar period, though it may have a start that there is not.
func isPeriod(word string) bool { return isCalendar(word) || strings.Index(word, startMark) > 0 }

// starts are what calendar periods begin with, each with an example.
var starts = map[string]struct{ what, example string }{
	"day":   {"a day begins at a time from 00:00 to 23:59", "06:00"},
	"week":  {"a week begins on a day such as wednesday", "wednesday"},
	"month": {"a month begins on a day from 1 to 31, where 29 to 31 are the last of a shorter month", "15"},
}

// checkPeriod refuses a calendar period with a start that there is not, as month@32 is.
func checkPeriod(period string) error {
	if isCalendar(period) {
		return nil
	}
	word, start, _ := strings.Cut(period, startMark)
	shown, unit := shownPeriod(period), windowMeant(word)
	known, found := starts[unit]
	if !found {
		return fmt.Errorf("window %s: only day, week and month have a start; write window day@06:00, week@monday or month@15", shown)
	}
	meant := startMeant(unit, start)
	if meant == "" {
		meant = known.example
	}
	return fmt.Errorf("window %s: %s; write window %s, in JSON calendar %s with calendar_start %s",
		shown, known.what, unit+startMark+meant, unit, meant)
}

// plainPeriod matches what can only be meant for a calendar period and its start, though both have an @ as addresses with
// passwords do.
var plainPeriod = regexp.MustCompile(`^[A-Za-z]{1,8}@[\w:.-]{0,12}$`)

// shownPeriod returns a calendar period for errors.
func shownPeriod(period string) string {
	if plainPeriod.MatchString(period) {
		return period
	}
	return secretfile.Redact(period)
}

// cutDayFrom takes the placeholder of a month's day from the values of window. The day behind it takes its place:
//
//	month@{http.auth.user.billing_day} 1 Europe/Berlin  ->  month@1 Europe/Berlin
func (p *Policy) cutDayFrom(args []string) ([]string, error) {
	if len(args) == 0 {
		return args, nil
	}
	unit, from, _ := strings.Cut(args[0], startMark)
	if !strings.HasPrefix(from, "{") {
		return args, nil
	}
	day, rest := "", args[1:]
	if len(rest) > 0 {
		if _, err := strconv.Atoi(rest[0]); err == nil {
			day, rest = rest[0], rest[1:]
		}
	}
	p.CalendarStartFrom = from
	return append([]string{unit + startMark + day}, rest...), checkDayFrom(unit, from, day)
}

// checkDayFrom refuses a placeholder of anything but a month's day, and one without a day for when it is empty.
func checkDayFrom(unit, from, day string) error {
	switch {
	case unit != "month":
		return fmt.Errorf("window %s@%s: only the day of a month comes from a placeholder; write window month@%[2]s 1",
			secretfile.Redact(unit), rule.ShortNames(from))
	case day == "":
		return fmt.Errorf("window month@%s: a placeholder needs a day behind it, for when it is empty; write in a block "+
			"window month@%[1]s 1", rule.ShortNames(from))
	}
	return nil
}

var (
	timeMeant = regexp.MustCompile(`^([01]?\d|2[0-3])(?:[:.h]?([0-5]\d))?h?$`)
	dayMeant  = regexp.MustCompile(`^0*([1-9]|[12]\d|3[01])(?:st|nd|rd|th|\.)?$`)
)

// startMeant returns the start of a unit that a text means; empty: none.
func startMeant(unit, text string) string {
	text = strings.ToLower(text)
	switch unit {
	case "day":
		if parts := timeMeant.FindStringSubmatch(text); parts != nil {
			hour, _ := strconv.Atoi(parts[1])
			minute, _ := strconv.Atoi(parts[2])
			return fmt.Sprintf("%02d:%02d", hour, minute)
		}
	case "week":
		days := limiter.Weekdays()
		if i := slices.IndexFunc(days, func(day string) bool { return len(text) > 1 && strings.HasPrefix(day, text) }); i >= 0 {
			return days[i]
		}
	case "month":
		if parts := dayMeant.FindStringSubmatch(text); parts != nil {
			return parts[1]
		}
		if text == "last" || text == "end" {
			return "31"
		}
	}
	return ""
}
