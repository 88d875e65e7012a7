package redisratelimit

import (
	"errors"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// places are where the options of a block stand, and under "" where the block begins. Much of what
// is wrong with an option shows only when all are read, and is told with the option's line too.
type places map[string]caddyfile.Dispenser

// note remembers where the option at hand stands. It tells whether it stands there for the first time.
func (p places) note(d *caddyfile.Dispenser, option string) bool {
	_, found := p[option]
	p[option] = *d
	return !found
}

// wrap adds file and line of the option that an error is about, or of the block. Errors of checks
// begin with the names of options: "burst 0: …", "cert, key: …", or an error that wraps such a one.
func (p places) wrap(err error) error {
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
