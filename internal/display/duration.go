package display

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration writes a duration in its two largest units: 4 min 10 s.
func Duration(d time.Duration) string { return Seconds(d.Seconds()) }

// Seconds writes a number of seconds as [Duration] does.
func Seconds(seconds float64) string {
	switch rounded := math.Round(seconds); {
	case seconds == 0:
		return "0 s"
	case seconds > 0 && seconds < 0.000_005:
		return "< 0.01 ms"
	case seconds < 0.01:
		return Decimal(seconds*1000, 2) + " ms"
	case seconds < 1:
		return Decimal(seconds*1000, 0) + " ms"
	case rounded < 60:
		return Decimal(seconds, 1) + " s"
	case rounded < 3600:
		return twoUnits(rounded, 60, "min", "s")
	case rounded < 48*3600:
		return twoUnits(math.Round(seconds/60), 60, "h", "min")
	}
	return twoUnits(math.Round(seconds/3600), 24, "d", "h")
}

// AppendWait appends a time to wait in words, in its two largest units: 1 second, 4 minutes 10 seconds, 3 days. It is
// rounded up, so that it is over by then.
func AppendWait(text []byte, d time.Duration) []byte {
	seconds := ceil(int64(d), int64(time.Second))
	if seconds < 60 {
		return appendCounted(text, seconds, "second")
	}
	if seconds < 3600 {
		return appendTwo(text, seconds, 60, "minute", "second")
	}
	if minutes := ceil(seconds, 60); minutes < 24*60 {
		return appendTwo(text, minutes, 60, "hour", "minute")
	}
	return appendTwo(text, ceil(seconds, 3600), 24, "day", "hour")
}

// appendTwo appends a number of the smaller unit, of which the larger one has inLarger.
func appendTwo(text []byte, n, inLarger int64, larger, smaller string) []byte {
	text = appendCounted(text, n/inLarger, larger)
	if rest := n % inLarger; rest > 0 {
		text = appendCounted(append(text, ' '), rest, smaller)
	}
	return text
}

func appendCounted(text []byte, n int64, noun string) []byte {
	text = append(append(strconv.AppendInt(text, n, 10), ' '), noun...)
	if n != 1 {
		text = append(text, 's')
	}
	return text
}

// ceil is how many times a unit fits into a number, begun ones included.
func ceil(n, unit int64) int64 {
	times := n / unit
	if n%unit > 0 {
		times++
	}
	return times
}

// twoUnits writes a number of the smaller unit, of which the larger one has inLarger.
func twoUnits(n, inLarger float64, larger, smaller string) string {
	text := Decimal(math.Floor(n/inLarger), 0) + " " + larger
	if rest := math.Mod(n, inLarger); rest > 0 {
		text += " " + Decimal(rest, 0) + " " + smaller
	}
	return text
}

// Compact writes a duration as in a Caddyfile, where a column is narrow: 1m, 1h30m.
func Compact(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Period writes a duration as what follows "per": minute, 5 minutes, day.
func Period(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if n := d / u.unit; n > 0 && d%u.unit == 0 {
			if n == 1 {
				return u.name
			}
			return Counted(int64(n), u.name)
		}
	}
	return Duration(d)
}
