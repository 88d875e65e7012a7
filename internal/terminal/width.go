package terminal

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// This file measures texts in the columns of a terminal. A character takes no column, one or two.

// widthOf returns how many columns a text takes.
func widthOf(text string) int {
	columns := 0
	for _, r := range text {
		columns += runeWidth(r)
	}
	return columns
}

// runeWidth returns how many columns a character takes: two if it is wide, as most of East Asia's and most
// pictures are, and none if it combines with the character before.
func runeWidth(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// uncolored returns a line without its colors.
func uncolored(line string) string {
	for _, color := range []string{bold, red, green, yellow, plain} {
		line = strings.ReplaceAll(line, color, "")
	}
	return line
}

// Lines returns how many lines of a terminal of so many columns a line takes. The terminal breaks a line
// that is wider.
func Lines(line string, columns int) int {
	lines, at := 1, 0
	for _, r := range uncolored(line) {
		taken := runeWidth(r)
		if at+taken > columns {
			lines, at = lines+1, 0
		}
		at += taken
	}
	return lines
}

// wrapWords breaks a text between words into lines of so many columns. A wider word stays whole, so that it
// can be copied.
func wrapWords(text string, columns int) []string {
	var lines []string
	line := ""
	for i, word := range strings.Split(text, " ") {
		switch {
		case i == 0:
			line = word
		case widthOf(line)+1+widthOf(word) > columns:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// longestWord returns how many columns the widest word of a text takes.
func longestWord(text string) int {
	longest := 0
	for _, word := range strings.Split(text, " ") {
		longest = max(longest, widthOf(word))
	}
	return longest
}
