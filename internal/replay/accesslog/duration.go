package accesslog

import (
	"strconv"
	"strings"
	"time"
)

// durations reads how long requests took. A text such as 1.5ms names its unit. A number with a fraction is in
// seconds, Caddy's default. Whole numbers are milliseconds or nanoseconds: the configuration decides which, or
// else the numbers of the file so far.
type durations struct {
	named     time.Duration // the unit that the configuration names, 0 if none
	fractions bool          // the file has fractions, so whole numbers are seconds too
	certain   int           // numbers that can only be milliseconds, less those that can only be nanoseconds
	likely    int           // the same for numbers that are only more likely one of them
}

const (
	// onlyMillis is the bound below which numbers are milliseconds: no request takes less than a
	// microsecond.
	onlyMillis = 1000

	// onlyNanos is the bound from which numbers are nanoseconds: as milliseconds it is 17 minutes, which
	// few requests take.
	onlyNanos = 1_000_000

	// likelyNanos is the bound from which numbers are more likely nanoseconds. Long polls end within a
	// minute, and hardly a request takes less than 65 µs.
	likelyNanos = 65_000
)

// longestRequest is the longest plausible duration. A longer one counts as unknown.
const longestRequest = 7 * 24 * time.Hour

// newDurations takes the duration_format of the configuration; empty if it is unknown.
func newDurations(format string) durations {
	switch format {
	case "", "string":
		return durations{}
	case "ms", "milli", "millis":
		return durations{named: time.Millisecond}
	case "ns", "nano", "nanos":
		return durations{named: time.Nanosecond}
	}
	return durations{named: time.Second} // for any other format, as in Caddy
}

// read returns microseconds. Anything but a plausible duration is unknown.
func (d *durations) read(value string) (micros int64, known bool) {
	took := d.parse(value)
	if took < 0 || took > longestRequest {
		return 0, false
	}
	return took.Microseconds(), true
}

// parse returns a duration below zero for anything else.
func (d *durations) parse(value string) time.Duration {
	const none = -1
	if value == "" {
		return none
	}
	if value[0] == '"' {
		took, err := time.ParseDuration(unquote(value))
		if err != nil {
			return none
		}
		return took
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || !(n >= 0 && n < 1e15) {
		return none
	}
	d.classify(value, n)
	return time.Duration(min(n*float64(d.unit()), float64(2*longestRequest)))
}

// classify counts what a number says about the unit.
func (d *durations) classify(value string, n float64) {
	switch {
	case d.fractions:
	case strings.ContainsAny(value, ".eE"):
		d.fractions = true
	case n < onlyMillis:
		d.certain++
	case n >= onlyNanos:
		d.certain--
	case n < likelyNanos:
		d.likely++
	default:
		d.likely--
	}
}

// unit returns the unit of numbers. A fraction outweighs the configuration, which may be newer than the log:
// Caddy writes fractions in seconds only.
func (d *durations) unit() time.Duration {
	switch {
	case d.fractions:
		return time.Second
	case d.named > 0:
		return d.named
	case d.certain > 0, d.guessed():
		return time.Millisecond
	}
	return time.Nanosecond
}

// guessed reports whether numbers are read as milliseconds but may be nanoseconds: all requests took seconds,
// or microseconds.
func (d *durations) guessed() bool {
	return !d.fractions && d.named == 0 && d.certain == 0 && d.likely > 0
}
