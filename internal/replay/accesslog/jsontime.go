package accesslog

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// longestTime is the length of the longest text that may be a time, in bytes.
const longestTime = 64

// Why a line has no time.
const (
	noTime    = "no time that can be read; play the log with the configuration that wrote it, which has its time_format"
	noSuchDay = "a time before 1990 or after 2099"
)

// caddyLayouts are the layouts of the names that Caddy has for them. Fractions of a second need no layout of their
// own. The names of numbers have none: the size of a number decides its unit.
var caddyLayouts = map[string]string{
	"unix_seconds_float": "", "unix_milli_float": "", "unix_nano": "",
	"iso8601": "2006-01-02T15:04:05Z0700", "rfc3339": time.RFC3339, "rfc3339_nano": time.RFC3339,
	"wall": "2006/01/02 15:04:05", "wall_milli": "2006/01/02 15:04:05", "wall_nano": "2006/01/02 15:04:05",
	"common_log": commonLog,
}

// newLayouts returns the layouts of a configuration, then those of Caddy.
func newLayouts(configured []string) []string {
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
	return all
}

// time reads a time of any time_format into an entry. A time without an offset is taken for UTC.
func (p *parser) time(value string, e *Entry) (ok bool) {
	if value == "" || len(value) > longestTime {
		return false
	}
	if value[0] != '"' {
		e.Time, ok = epoch(value)
		return ok
	}
	text := unquote(value)
	for i := range p.layouts {
		at := (p.layout + i) % len(p.layouts)
		if t, err := time.ParseInLocation(p.layouts[at], text, time.UTC); err == nil && plausible(t.UnixMicro()) {
			p.layout, e.Time = at, t.UnixMicro()
			e.zoneless = !strings.Contains(p.layouts[at], "-07") && !strings.Contains(p.layouts[at], "Z07")
			return true
		}
	}
	e.Time, ok = epoch(text)
	return ok
}

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

// notTimes are the keys of an access log that never hold its time.
var notTimes = map[string]bool{
	"level": true, "logger": true, "msg": true, "request": true, "bytes_read": true, "user_id": true,
	"duration": true, "size": true, "status": true, "resp_headers": true,
}

// findTime looks for a time under another key than that of the lines before, and remembers the key.
func (p *parser) findTime(text string, e *Entry) (ok bool) {
	m := members{text: text}
	for m.next() {
		if !notTimes[m.key] && p.time(m.value, e) {
			p.timeKey = m.key
			return true
		}
	}
	return false
}
