package options

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// PlaceholderNames are the placeholders of limiters that other handlers name: values of request bodies, such as for a map
// that a limit depends on, and what was decided, such as for a log or an error page. The zero value has not looked for any.
type PlaceholderNames struct {
	known     bool
	sources   []bodyvalue.ValueSource
	short     []string // short names of the body's values, which have none there
	mapped    bool     // one of them is in a map, where it is no text for clients
	others    bool     // a handler of others sets placeholders by the short names
	Unknown   []string // with the prefix of limiters, and of no such name
	Decisions bool     // a placeholder of what was decided
	Crawlers  bool     // a placeholder of crawlers
}

// Of looks for them once, when the first limiter of a configuration is set up: modules that are not set up by then are
// JSON, and the others are looked through. Caddy sets up all matchers of a list of routes before its handlers.
func (n *PlaceholderNames) Of(ctx caddy.Context) []bodyvalue.ValueSource {
	if n.known {
		return n.sources
	}
	n.known = true
	for _, module := range ctx.Modules() {
		app, ok := module.(*caddyhttp.App)
		if !ok {
			continue
		}
		n.addFrom(app.Servers)
		trees := new(routetrace.Trees).Of(app.Servers) // as far as they are set up
		for _, matcher := range routetrace.Matchers(trees) {
			n.addFrom(matcher)
		}
		for handler := range routetrace.Handlers(trees) {
			if _, limits := handler.(routetrace.Limiting); !limits {
				n.addFrom(handler)
			}
			if module, ok := handler.(caddy.Module); ok {
				n.meet(module.CaddyModule().ID.Name())
			}
		}
	}
	return n.sources
}

// addFrom adds the names in the configuration of a module, without those in limiters.
func (n *PlaceholderNames) addFrom(module any) {
	text, err := json.Marshal(module)
	if err != nil {
		return // it is no module of JSON alone, and cannot have a text from a configuration
	}
	limits := func(object map[string]any) bool {
		name, _ := object["handler"].(string)
		n.meet(name)
		if _, isMap := object["destinations"]; isMap {
			source, _ := json.Marshal(object["source"])
			n.mapped = n.mapped || len(bodyvalue.ShortNamesInJSON(source, nil)) > 0
		}
		return name == AppName
	}
	for _, name := range bodyvalue.NamesInJSON(text, limits) {
		if source, err := bodyvalue.ParseSource(name); err == nil { // another name has no value
			n.sources = append(n.sources, source)
		}
	}
	n.short = append(n.short, bodyvalue.ShortNamesInJSON(text, limits)...)
	n.Decisions = n.Decisions || namesDecision(text)
	n.Crawlers = n.Crawlers || namesCrawler(text)
	n.addUnknown(text)
}

// addUnknown adds the placeholders in a configuration that have the limiters' prefix, and no name that limiters have.
func (n *PlaceholderNames) addUnknown(text []byte) {
	mark := []byte("{" + bodyvalue.PlaceholderPrefix)
	for before, rest, found := bytes.Cut(text, mark); found; before, rest, found = bytes.Cut(rest, mark) {
		length := bytes.IndexFunc(rest, func(r rune) bool { return r != '_' && r != '.' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
		if length < 0 || rest[length] != '}' || bytes.HasSuffix(before, []byte("\\")) {
			continue
		}
		if name := bodyvalue.PlaceholderPrefix + string(rest[:length]); !isPlaceholder(name) {
			n.Unknown = routetrace.AppendNew(n.Unknown, name)
		}
	}
}

// isPlaceholder reports whether a name with the limiters' prefix is one of theirs.
func isPlaceholder(name string) bool {
	return bodyvalue.IsPlaceholder(name) || slices.Contains(placeholders(), name)
}

// placeholders are those of limiters that are no values of bodies.
var placeholders = sync.OnceValue(func() []string {
	return append(gate.PlaceholderNames(), rule.CrawlerName, rule.CrawlerClaim, rule.CrawlerStatus, rule.CredentialName, rule.CredentialName+".user")
})

// UnknownPlaceholder returns what is wrong with the name of a placeholder that has the limiters' prefix; empty: nothing, or it has
// another prefix.
func UnknownPlaceholder(name string) string {
	if !strings.HasPrefix(name, bodyvalue.PlaceholderPrefix) || isPlaceholder(name) {
		return ""
	}
	return fmt.Sprintf("there is no placeholder {%s}, so that it has no value; write {%s}", name, closest(name, placeholders())[0])
}

// namesCrawler reports whether a configuration names a placeholder of crawlers.
func namesCrawler(text []byte) bool { return bytes.Contains(text, []byte(rule.CrawlerName)) }

// namesDecision reports whether a configuration names a placeholder of limiters that is no value of a body, and not of crawlers.
func namesDecision(text []byte) bool {
	for _, rest, found := bytes.Cut(text, []byte(bodyvalue.PlaceholderPrefix)); found; _, rest, found = bytes.Cut(rest, []byte(bodyvalue.PlaceholderPrefix)) {
		isOther := func(prefix string) bool { return bytes.HasPrefix(rest, []byte(prefix)) }
		if !isOther("json.") && !isOther("form.") && !isOther("crawler") {
			return true
		}
	}
	return false
}

// meet takes the name of a handler.
func (n *PlaceholderNames) meet(handler string) {
	n.others = n.others || strings.HasPrefix(handler, othersPrefix)
}

// othersPrefix begins the names of handlers that others have written, such as json_parse and json_vars, which set
// placeholders by the same short names.
const othersPrefix = "json_"

// CheckShort refuses short names outside of the directive, in a configuration where the directive reads bodies, or a map asks
// for their values. Others may have them as texts.
func (n *PlaceholderNames) CheckShort(readsBody bool) error {
	if len(n.short) == 0 || n.others || !readsBody && !n.mapped {
		return nil
	}
	return fmt.Errorf("{%s} is a short name, which only the directive has; elsewhere write {%s%[1]s}, or \\{%[1]s} for a text in braces",
		n.short[0], bodyvalue.PlaceholderPrefix)
}
