package options

import (
	"errors"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

// Value reads the single value of the current option, which is not empty.
func Value(d *caddyfile.Dispenser) (string, error) {
	option := d.Val()
	value, err := Text(d)
	if err != nil {
		return "", err
	}
	return value, NotEmpty(d, option, value)
}

// NotEmpty refuses an empty value.
func NotEmpty(d *caddyfile.Dispenser, option, value string) error {
	if value == "" {
		return d.Errf("%s: empty; write a value, or leave it out for the default", option)
	}
	return nil
}

// Text reads the single value of the current option, which has no block.
func Text(d *caddyfile.Dispenser) (string, error) {
	option := d.Val()
	args := d.RemainingArgs()
	if len(args) != 1 {
		return "", d.Errf("%s takes one value, got %d", option, len(args))
	}
	if d.NextBlock(d.Nesting()) {
		return "", d.Errf("%s takes one value and no block", option)
	}
	return args[0], nil
}

// Switch reads on or off.
func Switch(d *caddyfile.Dispenser, option, value string) (*bool, error) {
	if value != "on" && value != "off" {
		return nil, d.Errf("%s %s: use on or off", option, secretfile.Redact(value))
	}
	return new(value == "on"), nil
}

// Number reads a whole number from least to most. Its error does not show the value: a secret may
// stand in the wrong line of a redis block.
func Number(d *caddyfile.Dispenser, option, value string, least, most int) (int, error) {
	n, err := strconv.ParseUint(value, 10, 31)
	if err == nil && least <= int(n) && int(n) <= most {
		return int(n), nil
	}
	return 0, d.Errf("%s: use a whole number from %d to %d", option, least, most)
}

// Percent reads a percentage such as 12.5%. Which are possible the option decides.
func Percent(d *caddyfile.Dispenser, option, value string) (*float64, error) {
	digits, found := strings.CutSuffix(value, "%")
	percent, err := strconv.ParseFloat(digits, 64)
	if err == nil && found && strings.Trim(digits, "-0123456789.") == "" {
		return &percent, nil
	}
	switch {
	case !(percent > 0 && percent <= 100):
		percent = 10
	case percent <= 1: // a part of a whole, as others write it
		percent *= 100
	}
	return nil, d.Errf("%s %s: use a percentage with its sign, such as %[1]s %.6[3]g%%", option, secretfile.Redact(value), percent)
}

// Lines are where the options of a block stand, and under "" where the block begins. Some errors of an
// option show only when all are read; they get the option's line too.
type Lines map[string]caddyfile.Dispenser

// Note records where the current option stands. It reports whether it stands there for the first time.
func (l Lines) Note(d *caddyfile.Dispenser, option string) bool {
	_, found := l[option]
	l[option] = *d
	return !found
}

// Once notes where the current option stands. It refuses one that stands there already, and an empty word.
func (l Lines) Once(d *caddyfile.Dispenser, option string) error {
	switch {
	case option == "":
		return d.Err("an empty word; write an option, or leave it out")
	case l.Note(d, option):
		return nil
	case option == "match":
		return d.Err("match is given twice; write one block match { ... } with a matcher in each line")
	}
	return d.Errf("%s is given twice; leave one out", option)
}

// Place returns file and line of the block, and the imports that led there.
func (l Lines) Place() string {
	at := l[""]
	return strings.TrimPrefix(at.Err("").Error(), ", at ")
}

// Wrap adds file and line of the option that an error is about, or of the block. Errors of checks
// begin with the names of options: "burst 0: …", "cert, key: …", or an error that wraps such a one.
func (l Lines) Wrap(err error) error {
	at := l[""]
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		about, _, _ := strings.Cut(cause.Error(), ":")
		for part := range strings.SplitSeq(about, ", ") {
			option, _, _ := strings.Cut(part, " ")
			if place, found := l[option]; found && option != "" {
				return place.WrapErr(err)
			}
		}
	}
	return at.WrapErr(err)
}
