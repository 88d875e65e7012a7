package accesslog

import (
	"math"
	"strconv"
	"time"
)

// longestRequest is the longest plausible duration. A longer one counts as unknown.
const longestRequest = 7 * 24 * time.Hour

// durationUnit returns the unit of numbers in a duration_format of Caddy: seconds unless it names another; 0 for texts,
// which need none.
func durationUnit(format string) time.Duration {
	switch format {
	case "ms", "milli", "millis":
		return time.Millisecond
	case "ns", "nano", "nanos":
		return time.Nanosecond
	case "string":
		return 0
	}
	return time.Second
}

// readDuration reads how long a request took, a number of units or a text such as 1.5ms, in microseconds. Anything but a
// plausible duration is unknown.
func readDuration(value string, unit time.Duration) (micros int64, known bool) {
	took := -time.Second
	if text := unquote(value); text != "" {
		if read, err := time.ParseDuration(text); err == nil {
			took = read
		}
	} else if n, err := strconv.ParseFloat(value, 64); err == nil && n >= 0 && n < 1e15 {
		if n != math.Trunc(n) {
			unit = time.Second // in other units Caddy writes whole numbers
		}
		took = time.Duration(min(n*float64(unit), float64(2*longestRequest)))
	}
	if took < 0 || took > longestRequest {
		return 0, false
	}
	return took.Microseconds(), true
}
