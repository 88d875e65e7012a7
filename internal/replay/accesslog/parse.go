package accesslog

import (
	"strings"
	"time"
)

// byteOrderMark begins files of some programs.
const byteOrderMark = "\ufeff"

// parser reads the lines of one file; what it learns from a line makes the next one cheaper.
type parser struct {
	clock    clock
	timeKey  string // of JSON, where it is none of the usual
	layouts  []layout
	layout   int // of JSON's time, the last that fitted
	duration durations

	responses bool // the header of JSON's responses is asked for
}

func newParser(o *Options) parser {
	return parser{layouts: newLayouts(o.TimeLayouts), duration: newDurations(o.DurationFormat), responses: o.Responses}
}

// parse reads a line into an empty entry. A reason tells that the line is malformed, and why.
func (p *parser) parse(text string, e *Entry) (format Format, reason string) {
	text = strings.TrimPrefix(text, byteOrderMark)
	if text != "" && text[0] == '"' {
		text = unwrapped(text)
	}
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

// Times outside are taken for errors: there were no access logs before.
var (
	earliest = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	latest   = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
)

// plausible takes microseconds since the Unix epoch.
func plausible(micros int64) bool { return micros >= earliest && micros < latest }

// noneIfDash is a field of the Common Log Format, where a dash stands for nothing.
func noneIfDash(field string) string {
	if field == "-" {
		return ""
	}
	return field
}
