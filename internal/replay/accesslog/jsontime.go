package accesslog

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// longestTime is the length of the longest text that may be a time, in bytes.
const longestTime = 64

// Why a line has no time.
const (
	noTime    = "no time that can be read; play the log with the configuration that wrote it, which has its time_format"
	noDate    = "a time without a date, which cannot be played"
	noSuchDay = "a time before 1990 or after 2099"
)

// time reads a time of any time_format into an entry.
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
		if t, zoned, ok := p.layouts[at].read(text); ok {
			p.layout = at
			e.Time, e.zoneless = t.UnixMicro(), !zoned
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

// findTime looks for a time under an unusual key, and remembers the key.
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

// untimed returns why a line has no time. The value is that of a usual key.
func (p *parser) untimed(value, text string) string {
	if _, err := strconv.ParseFloat(value, 64); err == nil {
		return noSuchDay
	}
	m := members{text: text}
	for m.next() {
		if !notTimes[m.key] && p.undated(m.value) {
			return noDate
		}
	}
	return noTime
}

// undated reports whether a value is a time without a date.
func (p *parser) undated(value string) bool {
	if len(value) > longestTime {
		return false
	}
	text := unquote(value)
	return slices.ContainsFunc(p.layouts, func(l layout) bool {
		_, err := time.Parse(l.text, text)
		return err == nil && !l.dated
	})
}
