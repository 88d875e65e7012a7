package options

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

var (
	placeOfError = regexp.MustCompile(`(?s)^.*, at (.+):(\d+)(?: import chain \[.*\])?$`)
	variable     = regexp.MustCompile(`\{\$([^{}:]+)(?::([^{}]*))?\}`)
)

// NameEmpty adds to an error of a block's parser which {$VARIABLES} in its line are empty. Caddy replaces them
// before it parses a file, so that a value is missing in the line. They are read from the file, if it still is
// what was parsed.
func NameEmpty(d *caddyfile.Dispenser, err error) error {
	place := placeOfError.FindStringSubmatch(err.Error())
	if place == nil {
		return err
	}
	text, failed := os.ReadFile(place[1])
	number, _ := strconv.Atoi(place[2])
	lines := strings.Split(string(text), "\n")
	if failed != nil || number > len(lines) || !begins(*d, place[1], number, lines[number-1]) {
		return err
	}
	for _, v := range variable.FindAllStringSubmatch(lines[number-1], -1) {
		value, set := os.LookupEnv(v[1])
		if !set {
			value = v[2]
		}
		if value == "" {
			return fmt.Errorf("%w; {$%s} in this line is empty: set the variable, or write a default behind a colon, {$%[2]s:<default>}", err, v[1])
		}
	}
	return err
}

// begins reports whether the first word of a file's line was parsed there.
func begins(d caddyfile.Dispenser, file string, number int, line string) bool {
	words := strings.Fields(line)
	d.Reset()
	for d.Next() {
		if d.File() == file && d.Line() == number {
			return len(words) > 0 && words[0] == d.Val()
		}
	}
	return false
}
