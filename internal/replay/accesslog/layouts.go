package accesslog

import (
	"strings"
	"time"
)

// layout is a way to write a time as text, in the words of [time.Layout].
type layout struct {
	text   string
	dated  bool // it tells the year, the month and the day
	offset bool // it tells how far the clock is from UTC
	zone   bool // it tells the abbreviation of a zone
}

// Layouts that Caddy has a name for. Fractions of a second need no layout of their own.
const (
	iso8601   = "2006-01-02T15:04:05Z0700"
	wall      = "2006/01/02 15:04:05"
	commonLog = "02/Jan/2006:15:04:05 -0700"
)

// layouts are tried where the configuration names none: those of Caddy and of Go, and what else is
// common and can be read in one way only. Days and months between slashes cannot: 01/02/2006 is in
// January for some and in February for others.
var layouts = [...]string{
	time.RFC3339,
	iso8601,
	wall,
	commonLog,
	time.DateTime,
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05 -0700",
	"2006-01-02 15:04:05 -0700 MST",
	"2006-01-02 15:04:05 MST",
	"2006-01-02T15:04:05",
	"2006/01/02 15:04:05 -0700",
	"2006/01/02 15:04:05 MST",
	"2006.01.02 15:04:05",
	"02/Jan/2006:15:04:05",
	"02/Jan/2006 15:04:05",
	"02-Jan-2006 15:04:05",
	"02 Jan 2006 15:04:05",
	"02 Jan 2006 15:04:05 -0700",
	"02 Jan 2006 15:04:05 MST",
	"Jan _2, 2006 15:04:05",
	time.RFC1123Z,
	time.RFC1123,
	time.RFC850,
	time.ANSIC,
	time.UnixDate,
	time.RubyDate,
	"20060102T150405Z0700",
	"20060102 15:04:05",
	"20060102150405",
	"02.01.2006 15:04:05",

	// Without a date: they are here to be recognized.
	time.TimeOnly,
	time.Kitchen,
	"3:04:05PM",
	time.Stamp,
}

// newLayouts are those of a configuration, and the others.
func newLayouts(configured []string) []layout {
	all := make([]layout, 0, len(configured)+len(layouts))
	for _, name := range configured {
		if text := layoutOf(name); text != "" {
			all = append(all, newLayout(text))
		}
	}
	for _, text := range layouts {
		all = append(all, newLayout(text))
	}
	return all
}

// layoutOf is the layout of a time_format, empty where that is a number: its size tells what it
// counts.
func layoutOf(format string) string {
	switch format {
	case "unix_seconds_float", "unix_milli_float", "unix_nano":
		return ""
	case "iso8601":
		return iso8601
	case "rfc3339", "rfc3339_nano":
		return time.RFC3339
	case "wall", "wall_milli", "wall_nano":
		return wall
	case "common_log":
		return commonLog
	}
	return format
}

func newLayout(text string) layout {
	const year, month, day = 2017, time.November, 23
	written := time.Date(year, month, day, 22, 47, 58, 0, time.UTC).Format(text)
	read, err := time.Parse(text, written)
	return layout{
		text:   text,
		dated:  err == nil && read.Year() == year && read.Month() == month && read.Day() == day,
		offset: strings.Contains(text, "-07") || strings.Contains(text, "Z07"),
		zone:   strings.Contains(text, "MST"),
	}
}

// read tells too whether the zone is known, without which the time is taken for UTC: abbreviations
// are only those of UTC and of the zone in which this process runs, as others have several meanings.
func (l *layout) read(text string) (t time.Time, zoned, ok bool) {
	t, err := time.Parse(l.text, text)
	if err != nil || !plausible(t.UnixMicro()) {
		return t, false, false
	}
	if l.offset || !l.zone {
		return t, l.offset, true
	}
	name, _ := t.Zone()
	return t, name == "UTC" || name == "GMT" || t.Location() == time.Local, true
}
