// Package humanize writes times for people.
package humanize

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration writes a duration in the two largest units that it has.
func Duration(d time.Duration) string { return Time(d.Seconds()) }

// Time writes a time in seconds in the two largest units that it has.
func Time(seconds float64) string {
	switch rounded := math.Round(seconds); {
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

// twoUnits writes so many of the smaller unit, of which a greater one has some.
func twoUnits(smaller, inGreater float64, greater, small string) string {
	text := Decimal(math.Floor(smaller/inGreater), 0) + " " + greater
	if rest := math.Mod(smaller, inGreater); rest > 0 {
		text += " " + Decimal(rest, 0) + " " + small
	}
	return text
}

// Decimal writes a number with at most so many decimals.
func Decimal(n float64, decimals int) string {
	text := strconv.FormatFloat(n, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
