package options

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

// AppName is the name of the app, of the handler, the directive and the global option.
const AppName = "redis_ratelimit"

// option is all that is known of an option of T, which is a policy or a handler. What is nil or empty does not concern the
// option.
type option[T any] struct {
	// name is the option's in a Caddyfile, where form is what stands behind the name, and lines what may stand in a block of
	// it, both in the words of docs/caddyfile.md.
	name, form, lines string

	// common says that a handler may have the option too, for all its policies that leave the option out.
	common bool

	// parse reads the option in a Caddyfile. That of policy blocks is read by the parser of the directive.
	parse func(p *optionParser, of *T) error

	// shown says that errors may show values: none of them is a secret.
	shown bool

	// advice is what to write in place of the words that others have for the option.
	advice, words string

	// fill sets the default of an option that is left out.
	fill func(of *T)

	// needs is the condition under which the option lacks another one. It is checked before all else.
	needs *exclusion[T]

	// check refuses values that are wrong by themselves, in the Caddyfile and in JSON. Defaults are set.
	check func(of *T) error

	// excludes are conditions that the option cannot have beside it.
	excludes []exclusion[T]

	// once says what to write instead of two blocks of one policy of which one has the option; empty: both may.
	once string

	// isSet reports whether the option is given. Only needs, excludes and once ask.
	isSet func(of *T) bool

	// settle writes the option into the settings of the limiter's policy. Those that no store knows have none.
	settle func(of *T, s *limiter.Settings)

	// apply writes the option into the rule by which requests are evaluated. The error is about a text that cannot be read.
	apply func(of *T, r *rule.Rule) error

	// together refuses what does not go with the limiter's policy or with the rule, which are made by then.
	together func(of *T, policy *limiter.Policy) error

	// tell writes the option into the description of its policy.
	tell func(of *T, t *telling)

	// unusable is the value on which the option decides if the value cannot be used.
	unusable string

	// holds says that requests are held by the option.
	holds bool
}

// optionParser reads options of a directive, or of a policy block in it.
type optionParser struct {
	*caddyfile.Dispenser
	helper httpcaddyfile.Helper
	sizes  []sizeOption
}

// sizeOption is an option whose number was written as a size.
type sizeOption struct {
	policy       *Policy
	option, text string
	at           caddyfile.Dispenser
}

// The names of the options of a handler, of those that a policy and a handler may have, of those of policies alone, and of
// all that may stand in a policy block. They are made of the tables, whose ways to parse need them.
var handlerNames, commonNames, policyNames, blockNames []string

// Deciding says which options decide on a value that cannot be used, for the log.
var Deciding string

// exclusion is a condition under which an option has no meaning, and the error that says so.
type exclusion[T any] struct {
	beside func(of *T) bool
	err    string
}

// telling is a description that options are written into: the policy's, and that of the handler whose rule it is.
type telling struct {
	rule    *rule.Rule
	policy  *display.PolicyDescription
	handler *display.Handler
}

// namesOf lists the names of options.
func namesOf[T any](options []option[T]) []string {
	names := make([]string, len(options))
	for i := range options {
		names[i] = options[i].name
	}
	return names
}

// optionsWith returns the options for which a function is true.
func optionsWith[T any](options []option[T], is func(o *option[T]) bool) (found []option[T]) {
	for i := range options {
		if is(&options[i]) {
			found = append(found, options[i])
		}
	}
	return found
}

// optionOf returns the option of a name, nil if there is none.
func optionOf[T any](options []option[T], name string) *option[T] {
	for i := range options {
		if options[i].name == name {
			return &options[i]
		}
	}
	return nil
}

// blockOf returns a kind of block with options.
func blockOf[T any](place string, options []option[T]) Block {
	block := Block{Place: place, Options: namesOf(options)}
	for i := range options {
		if o := &options[i]; o.shown {
			block.Shown = append(block.Shown, o.name)
		}
		if o := &options[i]; o.advice != "" {
			block.Hints = append(block.Hints, Hint{Advice: o.advice, Words: strings.Fields(o.words)})
		}
	}
	return block
}

// firstError calls a function of each option that has it, until one returns an error.
func firstError[T any](options []option[T], call func(o *option[T]) error) error {
	for i := range options {
		if err := call(&options[i]); err != nil {
			return err
		}
	}
	return nil
}

// The ways to read options. A special one is a function of its own.

// one reads an option that has one value, into a field.
func one[T, V any](field func(*T) *V, read func(d *caddyfile.Dispenser, option, value string) (V, error)) func(*optionParser, *T) error {
	return func(p *optionParser, of *T) error {
		option := p.Val()
		value, err := Value(p.Dispenser)
		if err != nil {
			return err
		}
		*field(of), err = read(p.Dispenser, option, value)
		return err
	}
}

// bare reads an option without a value.
func bare[T any](field func(*T) *bool) func(*optionParser, *T) error {
	return func(p *optionParser, of *T) error { return p.flag(field(of)) }
}

// some reads an option that has one value or more. The error says what they are.
func some[T any](field func(*T) *[]string, what string) func(*optionParser, *T) error {
	return func(p *optionParser, of *T) (err error) {
		*field(of), err = p.values(what)
		return err
	}
}

// text takes any value, which check may refuse.
func text[S ~string](_ *caddyfile.Dispenser, _, value string) (S, error) { return S(value), nil }

// duration takes one that is not below the least. The bounds say what would be right.
func duration(least time.Duration, bounds string) func(*caddyfile.Dispenser, string, string) (caddy.Duration, error) {
	return func(d *caddyfile.Dispenser, option, value string) (caddy.Duration, error) {
		return Duration(d, option, value, least, bounds)
	}
}

// number takes a whole number from least to most.
func number(least, most int) func(*caddyfile.Dispenser, string, string) (int, error) {
	return func(d *caddyfile.Dispenser, option, value string) (int, error) {
		return Number(d, option, value, least, most)
	}
}

// given takes what another way does, into a field that is nil where the option is left out.
func given[V any](
	read func(*caddyfile.Dispenser, string, string) (V, error),
) func(*caddyfile.Dispenser, string, string) (*V, error) {
	return func(d *caddyfile.Dispenser, option, value string) (*V, error) {
		v, err := read(d, option, value)
		return &v, err
	}
}

// oneOf refuses words that are none of the known ones. An option that is left out has none.
func oneOf[T any, S, W ~string](option string, field func(*T) *S, known ...W) func(*T) error {
	return func(of *T) error {
		word := *field(of)
		if word == "" || slices.Contains(known, W(word)) {
			return nil
		}
		words := make([]string, len(known))
		for i, w := range known {
			words[i] = string(w)
		}
		last := len(words) - 1
		return fmt.Errorf("%s %q: use %s or %s", option, secretfile.Redact(word), strings.Join(words[:last], ", "), words[last])
	}
}

// flag reads an option that has no value.
func (p *optionParser) flag(set *bool) error {
	option := p.Val()
	if p.NextArg() || p.NextBlock(p.Nesting()) {
		return p.Errf("%s takes no value", option)
	}
	*set = true
	return nil
}

// values reads an option that has one value or more.
func (p *optionParser) values(what string) ([]string, error) {
	option := p.Val()
	values := p.RemainingArgs()
	if len(values) == 0 || p.NextBlock(p.Nesting()) {
		return nil, p.Errf("%s takes values: %s", option, what)
	}
	return values, nil
}
