package options

import (
	"errors"
	"strings"
	"unicode"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// NameFields calls the fields in an error of the limiter by the options that they come from, and says
// where the Caddyfile has what the limiter's own hints are about.
func NameFields(err error) error {
	var inURL *dial.URLError
	if errors.As(err, &inURL) {
		return errors.New(inURL.Of(insteadOf[inURL.Field]))
	}
	if errors.Is(err, dial.ErrURLParameters) {
		return errors.New("redis URL: has parameters; put options into the redis block")
	}
	var field *limiter.FieldError
	if !errors.As(err, &field) {
		return err
	}
	names := strings.Split(field.Field, ", ")
	for i, name := range names {
		names[i] = optionOfField(name)
	}
	text := field.Of(strings.Join(names, ", "))
	if errors.Is(err, dial.ErrUseParseURL) {
		text += "; a URL stands behind the word redis itself"
	}
	return errors.New(text)
}

// insteadOf are what to write instead of a part of a URL that belongs into a field of dial.Options.
var insteadOf = map[string]string{
	"":                 "leave it out",
	"Addresses":        "write a block instead, redis { ... } with mode sentinel or mode cluster, and address <host:port>...",
	"Master":           "write a block instead, redis { ... } with mode sentinel, master <name> and address <host:port>...",
	"Username":         "write the user into the URL, redis://<user>:<password>@<host>",
	"Password":         "a block, redis { ... } with address and password, takes them as they are",
	"DB":               "write the database behind the address, redis://<host>:<port>/<n>",
	"Timeout":          "set timeout of the global option redis_ratelimit",
	"PoolSize":         "write a block instead, redis { ... } with address and pool_size",
	"TLS":              "rediss:// in place of redis:// is TLS",
	"TLS.RootCAs":      "write a block instead, redis { ... } with address and tls { ca <file> }",
	"TLS.Certificates": "write a block instead, redis { ... } with address and tls { cert <file>, key <file> }, each in a line",
	"TLS.ServerName":   "write a block instead, redis { ... } with address and tls { server_name <name> }",
	"TLS.VerifyConnection": "write a block instead, redis { ... } with address and tls { ca <file> }, " +
		"or tls { pin <sha256> } where no name can be verified",
}

// optionOfField returns the option of a field: its words in lower case, joined by underscores.
func optionOfField(field string) string {
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
