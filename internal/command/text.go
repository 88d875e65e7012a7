package command

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
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

// waitTime writes a time that has to pass first: none is now, and a negative one is never over.
func waitTime(seconds float64) string {
	switch {
	case seconds < 0:
		return "never"
	case seconds == 0:
		return "now"
	}
	return humanize.Time(seconds)
}

// inTime writes such a time as part of a sentence.
func inTime(seconds float64) string {
	if seconds <= 0 {
		return waitTime(seconds)
	}
	return "in " + humanize.Time(seconds)
}

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
			text = humanize.Decimal(number, 6)
		}
		parts = append(parts, name+"="+text)
	}
	return strings.Join(parts, " ")
}
