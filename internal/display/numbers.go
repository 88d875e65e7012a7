package display

import (
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Count writes a number with commas between the thousands.
func Count[N int | int64](n N) string { return humanize.Comma(int64(n)) }

// Counted writes a number of things: 1 request, 2,000 requests.
func Counted[N int | int64](n N, noun string) string { return Count(n) + " " + Noun(n, noun) }

// Size writes a number of bytes as a Caddyfile does, with the unit that leaves the smallest whole number: 500MiB, 5MB.
// A number that is whole in no unit is written as [Count] does.
func Size(n int64) string {
	number, text := n, Count(n)
	for _, system := range []struct {
		base  int64
		units []string
	}{{1024, []string{"KiB", "MiB", "GiB", "TiB", "PiB"}}, {1000, []string{"kB", "MB", "GB", "TB", "PB"}}} {
		rest := n
		for _, unit := range system.units {
			if rest == 0 || rest%system.base != 0 {
				break
			}
			rest /= system.base
			if rest < number {
				number, text = rest, strconv.FormatInt(rest, 10)+unit
			}
		}
	}
	return text
}

// Noun returns the noun for a number of things, in the singular or the plural.
func Noun[N int | int64](n N, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// Percent writes part of whole in percent. 0 % and 100 % are exact: anything between is written so that
// it differs from both. Without a whole it is 0 %.
func Percent[N int | int64](part, whole N) string {
	if whole == 0 {
		return "0 %"
	}
	percent, decimals := 100*float64(part)/float64(whole), 1
	switch {
	case part == 0, part == whole:
		decimals = 0
	case percent < 0.01:
		return "< 0.01 %"
	case percent < 0.1:
		decimals = 2
	case percent > 99.9 && percent < 100:
		percent = math.Floor(percent*10) / 10
	}
	return strconv.FormatFloat(percent, 'f', decimals, 64) + " %"
}

// Decimal writes a number with at most so many decimals.
func Decimal(n float64, decimals int) string {
	text := strconv.FormatFloat(n, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
