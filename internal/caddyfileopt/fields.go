package caddyfileopt

import (
	"errors"
	"strings"
	"unicode"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// NameFields calls the fields in an error of the limiter by the options that they come from, and says
// where the Caddyfile has what the limiter's own hints are about.
func NameFields(err error) error {
	if errors.Is(err, dial.ErrURLParameters) {
		return errors.New("redis URL: has parameters; put options into the redis block")
	}
	var field *limiter.FieldError
	if !errors.As(err, &field) {
		return err
	}
	names := strings.Split(field.Field, ", ")
	for i, name := range names {
		names[i] = optionOf(name)
	}
	text := field.Of(strings.Join(names, ", "))
	if errors.Is(err, dial.ErrUseParseURL) {
		text += "; a URL stands behind the word redis itself"
	}
	return errors.New(text)
}

// optionOf returns the option of a field: its words in lower case, joined by underscores.
func optionOf(field string) string {
	switch field {
	case "Addresses":
		return "address"
	case "DB":
		return "db"
	case "BanAfter":
		return "ban: after"
	}
	var option strings.Builder
	for i, r := range field {
		if i > 0 && unicode.IsUpper(r) {
			option.WriteByte('_')
		}
		option.WriteRune(unicode.ToLower(r))
	}
	return option.String()
}
