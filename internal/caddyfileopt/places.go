// Package caddyfileopt reads options of Caddyfile blocks, and says in which line what is wrong.
package caddyfileopt

import (
	"errors"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Places are where the options of a block stand, and under "" where the block begins. Some errors of an
// option show only when all are read; they get the option's line too.
type Places map[string]caddyfile.Dispenser

// Note records where the current option stands. It reports whether it stands there for the first time.
func (p Places) Note(d *caddyfile.Dispenser, option string) bool {
	_, found := p[option]
	p[option] = *d
	return !found
}

// Wrap adds file and line of the option that an error is about, or of the block. Errors of checks
// begin with the names of options: "burst 0: …", "cert, key: …", or an error that wraps such a one.
func (p Places) Wrap(err error) error {
	at := p[""]
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		about, _, _ := strings.Cut(cause.Error(), ":")
		for part := range strings.SplitSeq(about, ", ") {
			option, _, _ := strings.Cut(part, " ")
			if place, found := p[option]; found && option != "" {
				return place.WrapErr(err)
			}
		}
	}
	return at.WrapErr(err)
}
