package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
)

const (
	// shownName is how much of a key, a file name or a policy's name the report shows, in characters;
	// shownSentence how much of a sentence that may hold such names.
	shownName     = 300
	shownSentence = 1000

	// noBreak keeps a number and its unit on one line.
	noBreak = "\u00a0"

	// nothing stands where there is no value.
	nothing = "–"
)

// sayName is a stranger's text with everything visible that would be invisible; the template escapes it.
func sayName(text string) string { return accesslog.Printable(text, shownName) }

// sayNames is a list of strangers' texts, each as a sentence may be long.
func sayNames(texts []string) []string {
	shown := make([]string, len(texts))
	for i, text := range texts {
		shown[i] = accesslog.Printable(text, shownSentence)
	}
	return shown
}

// sayCount is a number with commas between the thousands.
func sayCount[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// sayMany is a number with its noun.
func sayMany[N int | int64](n N, noun string) string { return sayCount(n) + noBreak + sayNoun(n, noun) }

// sayNoun is the noun for a number of things.
func sayNoun[N int | int64](n N, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// sayShare is part of whole in percent. It says 0 and 100 only where that is exact, and nothing where
// there is no whole.
func sayShare[N int | int64](part, whole N) string {
	if whole == 0 {
		return nothing
	}
	return sayPercent(100 * float64(part) / float64(whole))
}

func sayPercent(percent float64) string {
	decimals := 1
	switch {
	case percent == 0, percent == 100:
		decimals = 0
	case percent < 0.01:
		return "<" + noBreak + "0.01" + noBreak + "%"
	case percent < 0.1:
		decimals = 2
	case percent > 99.9 && percent < 100:
		percent = math.Floor(percent*10) / 10
	}
	return strconv.FormatFloat(percent, 'f', decimals, 64) + noBreak + "%"
}

// sayTime is an instant in a sentence, to the minute.
func sayTime(t time.Time) string { return sayInstant(t, "15:04 UTC on 2 January 2006") }

// sayCell is an instant in a column that says UTC, to the second.
func sayCell(t time.Time) string { return sayInstant(t, "2006-01-02 15:04:05") }

// sayBetween is a time in a sentence, with its day said once where it is the same.
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
	return strings.ReplaceAll(t.UTC().Format(layout), " ", noBreak)
}

// sayUnits are the units of a duration, the longest first.
var sayUnits = []struct {
	unit time.Duration
	name string
}{
	{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"},
}

// sayDuration is a duration in its two largest units, cut off below.
func sayDuration(d time.Duration) string {
	switch {
	case d <= 0:
		return "0" + noBreak + "s"
	case d < time.Millisecond:
		return "<" + noBreak + "1" + noBreak + "ms"
	}
	var words []string
	for _, u := range sayUnits {
		if len(words) == 2 || len(words) == 1 && u.unit < time.Second {
			break
		}
		if n := d / u.unit; n > 0 {
			words = append(words, fmt.Sprintf("%d%s%s", n, noBreak, u.name))
			d %= u.unit
		} else if len(words) > 0 {
			break
		}
	}
	return strings.Join(words, " ")
}

// saySpan is a duration as a noun: minute, 5 minutes, day.
func saySpan(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if n := d / u.unit; n > 0 && d%u.unit == 0 {
			if n == 1 {
				return u.name
			}
			return sayMany(int64(n), u.name)
		}
	}
	return sayDuration(d)
}

// sayRange is the numbers from the first to the last.
func sayRange(from, to int64) string {
	if from == to {
		return sayCount(from)
	}
	return sayCount(from) + "–" + sayCount(to)
}
