package accesslog

import (
	"strings"
	"time"
)

// byteOrderMark begins the files of some programs.
const byteOrderMark = "\ufeff"

// parser reads the lines of one file. State from a line makes the next one cheaper.
type parser struct {
	lastText string // the last time in Common Log Format, and its microseconds
	lastTime int64

	timeKey string // of JSON
	layouts []string
	layout  int  // the last that fitted a time in JSON
	timed   bool // a line had a duration

	durationUnit time.Duration
	responses    bool // keep the header of responses
}

func newParser(o *Options) parser {
	return parser{timeKey: "ts", layouts: newLayouts(o.TimeLayouts), durationUnit: durationUnit(o.DurationFormat), responses: o.Responses}
}

// parse reads a line into an empty entry. A malformed line has a reason.
func (p *parser) parse(text string, e *Entry) (format Format, reason string) {
	text = strings.TrimPrefix(text, byteOrderMark)
	start := 0
	for start < len(text) && (text[start] == ' ' || text[start] == '\t') {
		start++
	}
	switch {
	case start == len(text):
		return Other, ""
	case text[start] == '{':
		format, reason = p.json(text[start:], e)
	default:
		format, reason = p.clf(text[start:], e)
	}
	if reason == "" && format != Other && !plausible(e.Time) {
		return format, noSuchDay
	}
	return format, reason
}

// Times outside count as errors: no access log is older.
var (
	earliest = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	latest   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
)

// plausible reports whether microseconds since the Unix epoch are within these bounds.
func plausible(micros int64) bool { return micros >= earliest && micros < latest }

// noneIfDash returns a field of the Common Log Format, in which a dash is empty.
func noneIfDash(field string) string {
	if field == "-" {
		return ""
	}
	return field
}
