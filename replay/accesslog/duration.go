package accesslog

import (
	"strconv"
	"strings"
	"time"
)

// durations reads how long requests took. A log does not tell its duration_format: a text such as
// 1.5ms names its unit, and a number with a fraction is in seconds, Caddy's default. Whole numbers
// alone are milliseconds or nanoseconds: below [fewNanoseconds] the former, because hardly a
// request takes less than 10 µs. The majority of the file's lines so far decides.
type durations struct {
	fractions bool // there was one, so that whole numbers are seconds too
	few, many int  // whole numbers below fewNanoseconds, and others
}

// fewNanoseconds are as milliseconds 10 s, as nanoseconds 10 µs.
const fewNanoseconds = 10_000

// longestRequest is the longest duration that is believed; what is longer counts as 0.
const longestRequest = 24 * time.Hour

// read returns microseconds, 0 for what is no duration.
func (d *durations) read(value string) int64 {
	took := d.parse(value)
	if took < 0 || took > longestRequest {
		return 0
	}
	return took.Microseconds()
}

func (d *durations) parse(value string) time.Duration {
	if value == "" {
		return 0
	}
	if value[0] == '"' {
		took, err := time.ParseDuration(unquote(value))
		if err != nil {
			return 0
		}
		return took
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || !(n > 0 && n < 1e15) {
		return 0
	}
	return time.Duration(min(n*float64(d.unit(value, n)), float64(2*longestRequest)))
}

// unit learns from a number that is not 0 and tells what it counts.
func (d *durations) unit(value string, n float64) time.Duration {
	switch {
	case d.fractions:
	case strings.ContainsAny(value, ".eE"):
		d.fractions = true
	case n < fewNanoseconds:
		d.few++
	default:
		d.many++
	}
	switch {
	case d.fractions:
		return time.Second
	case d.few >= d.many:
		return time.Millisecond
	}
	return time.Nanosecond
}
