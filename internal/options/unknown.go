package options

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

// Block is a kind of block.
type Block struct {
	Place   string // where it stands, in errors
	Options []string
	Shown   []string // those whose values errors may show, since they are no secrets
	Hints   []Hint
}

// Blocks are all kinds of blocks. One where an option of another stands is told where it belongs.
type Blocks []Block

// Unknown is the error of an option that is none of the known ones.
func (b Blocks) Unknown(d *caddyfile.Dispenser, option string, known []string) error {
	if err := b.unknownWithSign(d, option, known); err != nil {
		return err
	}
	var places []string
	for _, block := range b {
		if slices.Contains(block.Options, option) {
			places = append(places, block.Place)
		}
	}
	if len(places) > 0 {
		return d.Errf("%s is not allowed here; write it into %s", option, strings.Join(places, ", or into "))
	}
	instead := b.hint(option)
	switch {
	case slices.Contains(known, "match") && isMatcher(option):
		return d.Errf("%s is a matcher; write match %s", option, secretfile.Redact(lineOf(d)))
	case instead == "":
		instead = "did you mean " + strings.Join(closest(option, known), ", ") + "?"
	}
	return d.Errf("unknown option %s; %s", secretfile.Redact(option), instead)
}

// lineOf returns the current word and the values behind it, as a Caddyfile has them.
func lineOf(d *caddyfile.Dispenser) string {
	ahead := *d
	words := []string{ahead.Val()}
	for ahead.NextArg() {
		word := rule.ShortNames(ahead.Val())
		if ahead.Token().Quoted() || word == "" {
			word = strconv.Quote(word)
		}
		words = append(words, word)
	}
	if ahead.NextBlock(ahead.Nesting()) {
		words = append(words, "{ ... }")
	}
	return strings.Join(words, " ")
}

// Each walks through the current block and refuses words that are unknown or stand twice. It
// returns where the options stand.
func (b Blocks) Each(d *caddyfile.Dispenser, known []string, parse func(option string) error) (Lines, error) {
	at := Lines{"": *d}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		option := d.Val()
		if !slices.Contains(known, option) {
			return at, b.Unknown(d, option, known)
		}
		if err := at.Once(d, option); err != nil {
			return at, err
		}
		if err := b.NoSign(d); err != nil {
			return at, err
		}
		if err := parse(option); err != nil {
			return at, err
		}
	}
	return at, nil
}

// closest returns up to three of the known options: those that differ little from another word, or else those that
// differ least.
func closest(word string, known []string) []string {
	const most, little = 3, 2
	sorted := slices.Clone(known)
	slices.SortStableFunc(sorted, func(a, b string) int { return distance(word, a) - distance(word, b) })
	sorted = sorted[:min(most, len(sorted))]
	if alike := slices.IndexFunc(sorted, func(o string) bool { return distance(word, o) > little }); alike > 0 {
		return sorted[:alike]
	}
	return sorted
}

// distance is how many bytes must be added, left out or replaced to make one word of the other. A part of a word
// is next to it.
func distance(a, b string) int {
	if a != "" && (strings.Contains(a, b) || strings.Contains(b, a)) {
		return 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
