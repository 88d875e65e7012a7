package rule

import (
	"cmp"
	"errors"
	"fmt"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// noSuchPlaceholder returns the error of a name that Caddy does not have; short is the shorthand that is meant.
func noSuchPlaceholder(option, name, short string) error {
	return fmt.Errorf("%s: Caddy has no placeholder {%s}; did you mean {%s}? In JSON it is {%s}", option, name, short, fullName(short))
}

// checkSpelling refuses a misspelled name of one of Caddy's own placeholders. Any other name may be set by the handlers map
// and vars.
func checkSpelling(option, name string) error {
	switch lettersOf(name) {
	case "remoteip", "httprequestremoteip", "httpremoteip", "requestremoteip":
		return fmt.Errorf("%s: Caddy has no placeholder {%s}; write {client_ip}, or {remote_host} for the address of the connection. "+
			"In JSON they are {%s} and {%s}", option, name, clientIPName, remoteHostName)
	case "httprequestclientip", "httpclientip", "requestclientip":
		return noSuchPlaceholder(option, name, "client_ip")
	}
	if slices.Contains(fullNames(), name) {
		return nil
	}
	if short := misspelledShorthand(name); short != "" {
		return noSuchPlaceholder(option, name, short)
	}
	if short := misspelledFullName(name); short != "" {
		return noSuchPlaceholder(option, name, short)
	}
	return nil
}

// spellings finds names by their letters, as [lettersOf] returns these. Of several names with the same letters the first one
// is meant.
type spellings struct {
	shorthands map[string]string // themselves
	dotted     map[string]string // shorthands that are followed by a dot and a name
	full       map[string]string // the shorthands of full names
	families   []family
}

// family is a shorthand that is followed by a dot and a name, with its full name.
type family struct {
	short, full string
	letters     string // of the full name, without a plural's s
	segments    int    // of the full name
}

var knownSpellings = sync.OnceValue(func() spellings {
	known := spellings{shorthands: byLetters(shorthands, shorthands), dotted: byLetters(dottedShorthands, dottedShorthands),
		full: byLetters(fullNames(), shorthands)}
	delete(known.full, "") // of shorthands that Caddy does not have
	for _, short := range dottedShorthands {
		full := families()[short]
		known.families = append(known.families, family{short, full, singular(full), strings.Count(full, ".") + 1})
	}
	return known
})

// byLetters returns the meanings of names by their letters.
func byLetters(names, meanings []string) map[string]string {
	found := make(map[string]string, len(names))
	for i, name := range names {
		if letters := lettersOf(name); found[letters] == "" {
			found[letters] = meanings[i]
		}
	}
	return found
}

// singular returns a name's letters without the s of a plural.
func singular(name string) string { return strings.TrimSuffix(lettersOf(name), "s") }

// misspelledShorthand returns the shorthand that a name differs from in case, '_', '-' and '.' alone; empty: none.
func misspelledShorthand(name string) string {
	if short := knownSpellings().shorthands[lettersOf(name)]; short != "" {
		return short
	}
	first, rest, dotted := strings.Cut(name, ".")
	if short := knownSpellings().dotted[lettersOf(first)]; dotted && short != "" {
		return short + "." + rest
	}
	return ""
}

// misspelledFullName returns the shorthand for a full name that is misspelled in the same ways, or in the plural; empty: none.
func misspelledFullName(name string) string {
	if short := knownSpellings().full[lettersOf(name)]; short != "" {
		return short
	}
	segments := strings.Split(name, ".")
	for _, f := range knownSpellings().families {
		if len(segments) <= f.segments {
			continue
		}
		given := strings.Join(segments[:f.segments], ".")
		if given != f.full && singular(given) == f.letters {
			return f.short + "." + strings.Join(segments[f.segments:], ".")
		}
	}
	return ""
}

// foreignKeys are the names of keys in other products, as [lettersOf] returns them, behind the placeholder to use here.
var foreignKeys = [][2]string{
	{"client_ip", "ip ipaddress clientaddr clientaddress remoteip remoteaddr remoteaddress binaryremoteaddr realipremoteaddr sourceip src " +
		"ipstrategy reqip requestip proxyaddxforwardedfor httpxforwardedfor httpxrealip xforwardedfor xrealip"},
	{"host", "servername httphost requesthost"},
	{"uri", "requesturi"},
	{"method", "requestmethod"},
	{"http.auth.user.id", "remoteuser"},
	{"query", "args querystring"},
}

var (
	foreignVariable  = regexp.MustCompile(`\$[A-Za-z_][A-Za-z0-9_]*`)
	placeholderSpace = regexp.MustCompile(`^http\.(?:request|vars|auth|regexp|reverse_proxy)\..`)
	headerName       = regexp.MustCompile(`(?i)^x-[a-z0-9-]+$`)
	wordOfName       = regexp.MustCompile(`^\$?[A-Za-z0-9_.-]+$`)
)

// PlaceholderFor returns the placeholder of a Caddyfile that a word in a key is meant for; empty: the word is no name of a
// placeholder.
func PlaceholderFor(word string) string {
	if !wordOfName.MatchString(word) {
		return ""
	}
	name, isVariable := strings.CutPrefix(word, "$")
	if isVariable {
		for prefix, family := range map[string]string{"http_": "header.", "cookie_": "cookie.", "arg_": "query."} {
			if rest, found := strings.CutPrefix(name, prefix); found && rest != "" && foreignName(name) == "" {
				if family == "header." {
					rest = textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(rest, "_", "-"))
				}
				return family + rest
			}
		}
		if name == "uri" || name == "document_uri" { // in nginx it has no query
			return "path"
		}
	}
	if found := foreignName(name); found != "" {
		return found
	}
	switch {
	case fullName(name) != "", placeholderSpace.MatchString(name):
		return name
	case headerName.MatchString(name):
		return "header." + name
	}
	if short := misspelledShorthand(name); short != "" {
		return short
	}
	return misspelledFullName(name)
}

func foreignName(name string) string { return foreignByLetters()[lettersOf(name)] }

// foreignByLetters has the placeholders for the names in [foreignKeys].
var foreignByLetters = sync.OnceValue(func() map[string]string {
	found := map[string]string{}
	for _, known := range foreignKeys {
		for letters := range strings.FieldsSeq(known[1]) {
			found[letters] = known[0]
		}
	}
	return found
})

// checkLiterals refuses a key whose literals are hardly meant as text: quotes, or names of placeholders without braces.
// The literals have a zero byte in place of each placeholder.
func checkLiterals(key, literals string, fixed bool) error {
	if quotes := "\"'`"; strings.ContainsAny(literals, quotes) {
		without := strings.NewReplacer(`"`, "", "'", "", "`", "").Replace(key)
		if without == "" {
			return errors.New("key: nothing but quotes; write {client_ip}")
		}
		return fmt.Errorf("key: the quotes would be part of each key; write key %s", without)
	}
	word := literals
	if !fixed {
		word = ""
		for _, variable := range foreignVariable.FindAllString(literals, -1) {
			if PlaceholderFor(variable) != "" {
				word = variable
			}
		}
	}
	short := PlaceholderFor(word)
	switch {
	case short == "" && (!fixed || foreignVariable.FindString(word) != word):
		return nil
	case short == "":
		return fmt.Errorf("key %s: no placeholder, so that all clients would share one quota; Caddy's stand in braces, such as {client_ip}", word)
	case !fixed:
		return fmt.Errorf("key: %s is no placeholder but a text, the same for all clients; write {%s}%s", word, short, inJSON(short))
	}
	return fmt.Errorf("key %s: no placeholder, so that all clients would share one quota; write {%s}%s", word, short, inJSON(short))
}

// inJSON says what a placeholder of the Caddyfile is called in JSON, if the name differs.
func inJSON(short string) string {
	if full := fullName(short); full != "" {
		return ". In JSON it is {" + full + "}"
	}
	return ""
}

// bodyName finds what is probably meant for a value of the request's body: a kind and a name, or a kind alone.
var bodyName = regexp.MustCompile(`(?i)^(?:http\.|request\.|redis_ratelimit\.)*(json|form|body|post|form_value)[.:](.+)$|^(json|form)$`)

// MeantOfBody returns the value of the request's body that is meant by a placeholder that Caddy does not have: in a
// Caddyfile and in JSON; empty for any other name.
func MeantOfBody(name string) (caddyfile, inJSON string) {
	parts := bodyName.FindStringSubmatch(name)
	if parts == nil || bodyvalue.IsPlaceholder(name) {
		return "", ""
	}
	text := "{form." + cmp.Or(parts[2], "email") + "}"
	switch strings.ToLower(parts[1] + parts[3]) {
	case "json":
		text = "{json." + text[len("{form."):]
	case "body":
		text = "{json." + text[len("{form."):] + " or " + text
	}
	return text, strings.ReplaceAll(text, "{", "{"+bodyvalue.PlaceholderPrefix)
}
