package kernel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Calendar is a kind of periods, with where each begins.
type Calendar struct {
	Unit Unit

	// Start is where the periods begin: the days of a month before it, the days of a week from Monday on, or the minutes
	// of a day. A month that is too short begins on its last day. Years begin on January 1. 0: as the calendar has them.
	Start int
}

// startMark separates a unit from its start in texts and in codes of keys.
const startMark = "@"

// Weekdays are the days of a week by their starts. They are never changed.
var Weekdays = []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}

// starts returns how many starts a unit has.
func (u Unit) starts() int {
	switch u {
	case unitDay:
		return 24 * 60
	case unitYear:
		return 1
	}
	return u.Days()
}

// ParseCalendar reads a unit, alone or with a start: day@06:00, week@monday, month@15. It takes one spelling of each, and
// returns the zero value for any other text.
func ParseCalendar(text string) (c Calendar, ok bool) {
	unit, start, given := strings.Cut(text, startMark)
	c.Unit = Unit(unit)
	if !given && c.Unit.Days() > 0 {
		return c, true
	}
	switch c.Unit {
	case unitDay:
		if at, err := time.Parse("15:04", start); err == nil {
			c.Start = at.Hour()*60 + at.Minute()
		}
	case unitWeek:
		c.Start = slices.Index(Weekdays, start)
	case unitMonth:
		day, _ := strconv.Atoi(start)
		c.Start = day - 1
	}
	if start == "" || c.Start < 0 || c.Start >= c.Unit.starts() || c.startText() != start {
		return Calendar{}, false
	}
	return c, true
}

// MonthFrom returns the calendar of months that begin on a day, from 1 to 31.
func MonthFrom(day int) Calendar { return Calendar{unitMonth, day - 1} }

// startText returns the start as [ParseCalendar] reads it; empty: there is none.
func (c Calendar) startText() string {
	switch c.Unit {
	case unitDay:
		return fmt.Sprintf("%02d:%02d", c.Start/60, c.Start%60)
	case unitWeek:
		return Weekdays[c.Start]
	case unitMonth:
		return strconv.Itoa(c.Start + 1)
	}
	return ""
}

// String returns the unit, with a start that is not the calendar's own.
func (c Calendar) String() string {
	if c.Start == 0 {
		return string(c.Unit)
	}
	return string(c.Unit) + startMark + c.startText()
}

// Code returns what keys of states have behind the code of the window: nothing for the calendar's own start, else the
// start in digits, as in p1d@0600, p7d@3 for Wednesday, p31d@15. Each start has states of its own.
func (c Calendar) Code() string {
	switch {
	case c.Start == 0:
		return ""
	case c.Unit == unitWeek:
		return startMark + strconv.Itoa(c.Start+1)
	}
	return startMark + strings.ReplaceAll(c.startText(), ":", "")
}

// first returns when the period begins that a date is in, as clocks show it. A time of the day is left to the caller: a day
// counts from its date on. Dates are midnights in UTC.
func (c Calendar) first(date time.Time) time.Time {
	switch c.Unit {
	case unitWeek:
		return date.AddDate(0, 0, -(int(date.Weekday())+13-c.Start)%7)
	case unitMonth:
		if first := c.ofMonth(date, 0); !first.After(date) {
			return first
		}
		return c.ofMonth(date, -1)
	case unitYear:
		return date.AddDate(0, 0, 1-date.YearDay())
	}
	return date.Add(time.Duration(c.Start) * time.Minute)
}

// ofMonth returns the first day of the period that begins in the n-th month after that of a date.
func (c Calendar) ofMonth(date time.Time, n int) time.Time {
	first := date.AddDate(0, 0, 1-date.Day()).AddDate(0, n, 0)
	last := first.AddDate(0, 1, -1)
	return first.AddDate(0, 0, min(c.Start+1, last.Day())-1)
}

// add returns when the n-th period after the one that begins then begins, as clocks show it.
func (c Calendar) add(first time.Time, n int) time.Time {
	switch c.Unit {
	case unitWeek:
		return first.AddDate(0, 0, 7*n)
	case unitMonth:
		return c.ofMonth(first, n)
	case unitYear:
		return first.AddDate(n, 0, 0)
	}
	return first.AddDate(0, 0, n)
}
