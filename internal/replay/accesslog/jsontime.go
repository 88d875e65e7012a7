package accesslog

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// longestTime is the length of the longest text that may be a time, in bytes.
const longestTime = 64

var noTime = malformed("no time that can be read; play the log with the configuration that wrote it, which has its time_format")

// caddyLayouts are the layouts of the names that Caddy has for them. Fractions of a second need no layout of their
// own. The names of numbers have none: the size of a number decides its unit.
var caddyLayouts = map[string]string{
	"unix_seconds_float": "", "unix_milli_float": "", "unix_nano": "",
	"iso8601": "2006-01-02T15:04:05Z0700", "rfc3339": time.RFC3339, "rfc3339_nano": time.RFC3339,
	"wall": "2006/01/02 15:04:05", "wall_milli": "2006/01/02 15:04:05", "wall_nano": "2006/01/02 15:04:05",
	"common_log": commonLog,
}

// jsonTimes reads the times of one file in JSON.
type jsonTimes struct {
	layouts []string
	last    int  // the index of the layout that fitted the last time
	coarse  bool // the last time was a text without a fraction
}

// newJSONTimes returns a reader of times in the layouts of a configuration, then in those of Caddy.
func newJSONTimes(configured []string) jsonTimes {
	var all []string
	for _, name := range append(append([]string{}, configured...), "rfc3339", "iso8601", "wall", "common_log") {
		text, named := caddyLayouts[name]
		if !named {
			text = name
		}
		if text != "" {
			all = append(all, text)
		}
	}
	return jsonTimes{layouts: all}
}

// read reads a time of any time_format into an entry. A time without an offset is taken for UTC.
func (t *jsonTimes) read(value string, e *Entry) (ok bool) {
	t.coarse = false
	if value == "" || len(value) > longestTime {
		return false
	}
	if value[0] != '"' {
		e.Time, ok = epoch(value)
		return ok
	}
	text := unquote(value)
	if t.readText(text, e) {
		t.coarse = !hasFraction(text)
		return true
	}
	e.Time, ok = epoch(text)
	return ok
}

// readText reads a time in one of the layouts.
func (t *jsonTimes) readText(text string, e *Entry) (ok bool) {
	if len(text) > longestTime {
		return false
	}
	for i := range t.layouts {
		at := (t.last + i) % len(t.layouts)
		if read, err := time.ParseInLocation(t.layouts[at], text, time.UTC); err == nil && plausible(read.UnixMicro()) {
			t.last, e.Time = at, read.UnixMicro()
			e.zoneless = !hasZone(t.layouts[at])
			return true
		}
	}
	return false
}

// hasZone reports whether a layout has an offset from UTC.
func hasZone(layout string) bool {
	return strings.Contains(layout, "-07") || strings.Contains(layout, "Z07")
}

// hasFraction reports whether a time as text has fractions of a second.
func hasFraction(text string) bool { return strings.ContainsAny(text, ".,") }

// epoch reads a number of seconds, milliseconds, microseconds or nanoseconds since the Unix epoch. Its size
// decides the unit: the present is a different power of ten in each.
func epoch(text string) (micros int64, ok bool) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0 && n < 1e19) {
		return 0, false
	}
	switch {
	case n < 1e11:
		n *= 1e6
	case n < 1e14:
		n *= 1e3
	case n >= 1e17:
		n /= 1e3
	}
	micros = int64(math.Round(n))
	return micros, plausible(micros)
}

// Times outside count as errors: no access log is older.
var (
	earliest = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	latest   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
)

var noSuchDay = malformed("a time before 1990 or after 2099")

// plausible reports whether microseconds since the Unix epoch are within these bounds.
func plausible(micros int64) bool { return micros >= earliest && micros < latest }

// commonLog is the layout of a time in Common Log Format.
const commonLog = "02/Jan/2006:15:04:05 -0700"
