package accesslog

import (
	"math"
	"strconv"
	"time"
)

// layouts are the ways in which time_format may write a time as text: those that Caddy has a name
// for, then those of Go. Fractions of a second need no layout of their own. A time without a zone is
// taken for UTC, as Caddy writes it without time_local.
var layouts = [...]string{
	time.RFC3339,
	"2006-01-02T15:04:05Z0700", // iso8601
	"2006/01/02 15:04:05",      // wall, wall_milli, wall_nano
	"02/Jan/2006:15:04:05 -0700",
	time.DateTime,
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05 -0700",
	"2006-01-02 15:04:05 -0700 MST",
	"2006-01-02T15:04:05",
	"2006/01/02 15:04:05 -0700",
	"02/Jan/2006:15:04:05",
	time.RFC1123Z,
	time.RFC1123,
	time.RFC850,
	time.ANSIC,
	time.UnixDate,
	time.RubyDate,
	"20060102T150405Z0700",
	"20060102150405",
	"02.01.2006 15:04:05",
}

// longestTime is the longest text that is taken for a time, in bytes.
const longestTime = 64

// time reads a time in microseconds, of any time_format.
func (p *parser) time(value string) (micros int64, ok bool) {
	if value == "" || len(value) > longestTime {
		return 0, false
	}
	if value[0] != '"' {
		return epoch(value)
	}
	text := unquote(value)
	for i := range layouts {
		layout := (p.layout + i) % len(layouts)
		if t, err := time.Parse(layouts[layout], text); err == nil {
			p.layout = layout
			return t.UnixMicro(), plausible(t.UnixMicro())
		}
	}
	return epoch(text)
}

// epoch reads a number of seconds, or of milliseconds, microseconds or nanoseconds since the Unix
// epoch. Which it is follows from its size: today is a different power of ten in each.
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

// findTime looks through all members for one that holds a time, under a key that is not usual, and
// remembers the key.
func (p *parser) findTime(text string) (micros int64, ok bool) {
	m := members{text: text}
	for m.next() {
		if notTimes[m.key] {
			continue
		}
		if micros, ok = p.time(m.value); ok {
			p.timeKey = m.key
			return micros, true
		}
	}
	return 0, false
}
