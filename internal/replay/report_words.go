package replay

import (
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

const (
	// shownName is how much of a key, a file name or a policy's name the report shows, in characters.
	// shownSentence is how much it shows of a sentence that may hold such names.
	shownName     = 300
	shownSentence = 1000

	// noBreak keeps a number and its unit on one line.
	noBreak = "\u00a0"

	// nothing stands in place of a value that does not exist.
	nothing = "–"
)

// sayName returns a stranger's text with its invisible characters escaped. The template escapes it for HTML.
func sayName(text string) string { return display.EscapeShort(text, shownName) }

// sayNames returns a list of strangers' sentences as [sayName] does.
func sayNames(texts []string) []string {
	shown := make([]string, len(texts))
	for i, text := range texts {
		shown[i] = display.EscapeShort(text, shownSentence)
	}
	return shown
}

// unbroken keeps a text on one line.
func unbroken(text string) string { return strings.ReplaceAll(text, " ", noBreak) }

// sayCounted returns a number of things.
func sayCounted[N int | int64](n N, noun string) string { return unbroken(display.Counted(n, noun)) }

// sayPercent returns part of whole in percent, and [nothing] without a whole.
func sayPercent[N int | int64](part, whole N) string {
	if whole == 0 {
		return nothing
	}
	return unbroken(display.Percent(part, whole))
}

// sayDuration returns a duration in its two largest units.
func sayDuration(d time.Duration) string { return unbroken(display.Duration(d)) }

// sayPeriod returns a duration as what follows "per".
func sayPeriod(d time.Duration) string { return unbroken(display.Period(d)) }

// sayLength returns the length of a window, or the calendar period and its time zone.
func sayLength(d time.Duration, calendar, zone string) string {
	if calendar != "" {
		return "a calendar" + noBreak + calendar + " (" + sayName(zone) + ")"
	}
	return sayDuration(d)
}

// sayWindow returns a window behind "per", or the calendar period in place of its longest length.
func sayWindow(d time.Duration, calendar string) string {
	if calendar != "" {
		return "calendar" + noBreak + calendar
	}
	return sayPeriod(d)
}

// sayRange returns the numbers from the first to the last.
func sayRange(from, to int64) string {
	if from == to {
		return display.Count(from)
	}
	return display.Count(from) + "–" + display.Count(to)
}

// sayTime returns an instant in a sentence, to the minute.
func sayTime(t time.Time) string { return sayInstant(t, "15:04 UTC on 2 January 2006") }

// sayCell returns an instant in a column titled UTC, to the second.
func sayCell(t time.Time) string { return sayInstant(t, "2006-01-02 15:04:05") }

// sayBetween returns a stretch of time in a sentence. A day that both ends share is named once.
func sayBetween(first, last time.Time) string {
	first, last = first.UTC(), last.UTC()
	if first.Format(time.DateOnly) == last.Format(time.DateOnly) {
		return "between " + first.Format("15:04") + " and " + sayTime(last)
	}
	return "between " + sayTime(first) + " and " + sayTime(last)
}

func sayInstant(t time.Time, layout string) string {
	if t.IsZero() {
		return nothing
	}
	return unbroken(t.UTC().Format(layout))
}
