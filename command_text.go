package redisratelimit

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
)

// This file writes what the commands tell in words.

// printable makes a text safe for a terminal: what is no graphic character is written as its code in JSON,
// because keys and names may be what clients chose.
func printable(text string) string {
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	var safe strings.Builder
	for _, r := range text {
		if !hidden(r) {
			safe.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&safe, `\u%04x`, unit)
		}
	}
	return safe.String()
}

// hidden tells whether a terminal would not show a character as it is.
func hidden(r rune) bool { return !unicode.IsPrint(r) }

// shorten takes the middle out of a text that is longer than so many characters.
func shorten(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	kept := max(0, most-1)
	return string(runes[:kept-kept/2]) + "…" + string(runes[len(runes)-kept/2:])
}

// humanTime writes a time in the two largest units that it has.
func humanTime(seconds float64) string {
	switch rounded := math.Round(seconds); {
	case seconds < 0.01:
		return decimal(seconds*1000, 2) + " ms"
	case seconds < 1:
		return decimal(seconds*1000, 0) + " ms"
	case rounded < 60:
		return decimal(seconds, 1) + " s"
	case rounded < 3600:
		return twoUnits(rounded, 60, "min", "s")
	case rounded < 48*3600:
		return twoUnits(math.Round(seconds/60), 60, "h", "min")
	}
	return twoUnits(math.Round(seconds/3600), 24, "d", "h")
}

// twoUnits writes so many of the smaller unit, of which a greater one has some.
func twoUnits(smaller, inGreater float64, greater, small string) string {
	text := decimal(math.Floor(smaller/inGreater), 0) + " " + greater
	if rest := math.Mod(smaller, inGreater); rest > 0 {
		text += " " + decimal(rest, 0) + " " + small
	}
	return text
}

// decimal writes a number with at most so many decimals.
func decimal(n float64, decimals int) string {
	text := strconv.FormatFloat(n, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// waitTime writes a time that has to pass first: none is now, and a negative one is never over.
func waitTime(seconds float64) string {
	switch {
	case seconds < 0:
		return "never"
	case seconds == 0:
		return "now"
	}
	return humanTime(seconds)
}

// inTime writes such a time as part of a sentence.
func inTime(seconds float64) string {
	if seconds <= 0 {
		return waitTime(seconds)
	}
	return "in " + humanTime(seconds)
}

func humanDuration(d time.Duration) string { return humanTime(d.Seconds()) }

// countOf writes a number of things.
func countOf(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(n, 10) + " " + thing + "s"
}

// pairs writes what a key of Redis holds, in the order of the names.
func pairs(value map[string]any) string {
	parts := make([]string, 0, len(value))
	for _, name := range slices.Sorted(maps.Keys(value)) {
		text := fmt.Sprint(value[name])
		if number, ok := value[name].(float64); ok {
			text = decimal(number, 6)
		}
		parts = append(parts, name+"="+text)
	}
	return strings.Join(parts, " ")
}
