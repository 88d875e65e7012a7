package accesslog

import (
	"strings"
	"time"
)

// layout is a form of a time as text, in the notation of [time.Layout].
type layout struct {
	text   string
	dated  bool // it has year, month and day
	offset bool // it has an offset from UTC
	zone   bool // it has the abbreviation of a zone
}

// Layouts that Caddy has a name for. Fractions of a second need no layout of their own.
const (
	iso8601   = "2006-01-02T15:04:05Z0700"
	wall      = "2006/01/02 15:04:05"
	commonLog = "02/Jan/2006:15:04:05 -0700"
)

// layouts are tried after those of the configuration: the layouts of Caddy and of Go, and other common ones
// that are unambiguous. Numbers between slashes are not: 01/02/2006 may be in January or in February.
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

	// Without a date, for a specific error.
	time.TimeOnly,
	time.Kitchen,
	"3:04:05PM",
	time.Stamp,
}

// newLayouts returns the layouts of a configuration, then all others.
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

// layoutOf returns the layout of a time_format; empty for a number, whose size decides its unit.
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

// read reads a time, and reports whether its zone is known. A time of an unknown zone is taken for UTC. Only the
// abbreviations of UTC and of this process's zone are known, because others have several meanings.
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
