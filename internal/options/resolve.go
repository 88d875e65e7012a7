package options

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

// OptionText is the text of an option, in place.
type OptionText struct {
	Option string
	Text   *string
}

// ResolveTexts replaces placeholders, as ResolveText does.
func ResolveTexts(texts []OptionText) (err error) {
	for _, t := range texts {
		if *t.Text, err = ResolveText(t.Option, *t.Text); err != nil {
			return err
		}
	}
	return nil
}

// ResolveText replaces placeholders. An unknown or empty one is an error, which names it but no
// value.
func ResolveText(option, text string) (string, error) {
	value, err := caddy.NewReplacer().ReplaceOrErr(text, true, true)
	if err != nil {
		return "", placeholderError(option, err)
	}
	return value, nil
}

// namedPlaceholder finds a placeholder that is one, and no part of a password with braces in it.
var namedPlaceholder = regexp.MustCompile(`\{?((?:env|file|system|time)\.[^{}\s]*)\}?`)

// placeholderError names the placeholder of the replacer's error, if it is certainly one.
func placeholderError(option string, err error) error {
	if name := namedPlaceholder.FindStringSubmatch(err.Error()); len(name) == 2 && secretfile.Redact(name[1]) == name[1] {
		if path, isFile := strings.CutPrefix(name[1], "file."); isFile {
			return fmt.Errorf("%s: {%s} %s; write the path of a file that the user of Caddy may read", option, name[1], problemOfFile(path))
		}
		return fmt.Errorf("%s: the placeholder {%s} is unknown or empty", option, name[1])
	}
	return fmt.Errorf(`%s: a placeholder is unknown or empty; write \{ for a brace that begins none`, option)
}

// problemOfFile says why a file has no text.
func problemOfFile(path string) string {
	_, err := os.ReadFile(path)
	var cause *fs.PathError
	if errors.As(err, &cause) {
		return "cannot be read: " + cause.Err.Error()
	}
	return "has no text, or more than 1 MB"
}

// ResolveURL replaces placeholders. Those in the user and password may have any characters.
func ResolveURL(text string) (string, error) {
	at := strings.LastIndexByte(text, '@')
	credentials, rest := text[:at+1], text[at+1:]
	if _, err := ResolveText("url", credentials); err != nil { // one is unknown or empty
		return "", err
	}
	credentials, err := caddy.NewReplacer().ReplaceFunc(credentials, func(_ string, value any) (any, error) {
		return strings.ReplaceAll(url.QueryEscape(caddy.ToString(value)), "+", "%20"), nil
	})
	if err != nil {
		return "", placeholderError("url", err)
	}
	rest, err = ResolveText("url", rest)
	return credentials + rest, err
}
