package options

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// shows reports whether errors may show the values of an option.
func (b Blocks) shows(option string) bool {
	return slices.ContainsFunc(b, func(block Block) bool { return slices.Contains(block.Shown, option) })
}

// NoSign refuses a sign between the current option and its value, or behind it, as other languages have it: limit = 5;
func (b Blocks) NoSign(d *caddyfile.Dispenser) error {
	ahead := *d
	args := ahead.RemainingArgs()
	if len(args) > 1 && (args[0] == "=" || args[0] == ":") {
		return b.signError(d, d.Val(), strings.Join(args[1:], " "))
	}
	if n := len(args); n > 0 && strings.HasSuffix(args[n-1], ";") && b.shows(d.Val()) {
		return d.Errf("%s: a line ends without a sign; write %s %s", d.Val(), d.Val(), strings.TrimRight(strings.Join(args, " "), ";"))
	}
	return nil
}

// unknownWithSign returns the error of a word such as limit=5 or limit: that begins with one of the known options; nil
// for any other.
func (b Blocks) unknownWithSign(d *caddyfile.Dispenser, word string, known []string) error {
	end := strings.IndexAny(word, "=:")
	if end < 1 || !slices.Contains(known, word[:end]) {
		return nil
	}
	ahead := *d
	values := append([]string{word[end+1:]}, ahead.RemainingArgs()...)
	return b.signError(d, word[:end], strings.TrimSpace(strings.Join(values, " ")))
}

func (b Blocks) signError(d *caddyfile.Dispenser, option, value string) error {
	if value == "" || !b.shows(option) {
		value = "and its value"
	}
	return d.Errf("%s: only a space stands between an option and its value; write %s %s", option, option, value)
}
