package redisratelimit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyplan"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// placeholderNames are the placeholders of limiters that other handlers name: values of request bodies, such as for a map
// that a limit depends on, and what was decided, such as for a log or an error page. The zero value has not looked for any.
type placeholderNames struct {
	known     bool
	sources   []bodyplan.Source
	short     []string // short names of the body's values, which have none there
	mapped    bool     // one of them is in a map, where it is no text for clients
	others    bool     // a handler of others sets placeholders by the short names
	decisions bool     // a placeholder of what was decided
	crawlers  bool     // a placeholder of crawlers
}

// of looks for them once, when the first limiter of a configuration is set up: modules that are not set up by then are
// JSON, and the others are looked through. Caddy sets up all matchers of a list of routes before its handlers.
func (n *placeholderNames) of(ctx caddy.Context) []bodyplan.Source {
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
		for _, matcher := range routetrace.Matchers(app.Servers) {
			n.addFrom(matcher)
		}
		for handler := range routetrace.Handlers(app.Servers) {
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
func (n *placeholderNames) addFrom(module any) {
	text, err := json.Marshal(module)
	if err != nil {
		return // it is no module of JSON alone, and cannot have a text from a configuration
	}
	limits := func(object map[string]any) bool {
		name, _ := object["handler"].(string)
		n.meet(name)
		if _, isMap := object["destinations"]; isMap {
			source, _ := json.Marshal(object["source"])
			n.mapped = n.mapped || len(bodyplan.ShortNamesInJSON(source, nil)) > 0
		}
		return name == appName
	}
	for _, name := range bodyplan.NamesInJSON(text, limits) {
		if source, err := bodyplan.ParseSource(name); err == nil { // another name has no value
			n.sources = append(n.sources, source)
		}
	}
	n.short = append(n.short, bodyplan.ShortNamesInJSON(text, limits)...)
	n.decisions = n.decisions || namesDecision(text)
	n.crawlers = n.crawlers || namesCrawler(text)
}

// namesCrawler reports whether a configuration names a placeholder of crawlers.
func namesCrawler(text []byte) bool { return bytes.Contains(text, []byte(rule.CrawlerName)) }

// namesDecision reports whether a configuration names a placeholder of limiters that is no value of a body, and not of crawlers.
func namesDecision(text []byte) bool {
	for _, rest, found := bytes.Cut(text, []byte(bodyplan.Prefix)); found; _, rest, found = bytes.Cut(rest, []byte(bodyplan.Prefix)) {
		isOther := func(prefix string) bool { return bytes.HasPrefix(rest, []byte(prefix)) }
		if !isOther("json.") && !isOther("form.") && !isOther("crawler") {
			return true
		}
	}
	return false
}

// meet takes the name of a handler.
func (n *placeholderNames) meet(handler string) {
	n.others = n.others || strings.HasPrefix(handler, othersPrefix)
}

// othersPrefix begins the names of handlers that others have written, such as json_parse and json_vars, which set
// placeholders by the same short names.
const othersPrefix = "json_"

// checkShort refuses short names outside of the directive, in a configuration where the directive reads bodies, or a map asks
// for their values. Others may have them as texts.
func (n *placeholderNames) checkShort(readsBody bool) error {
	if len(n.short) == 0 || n.others || !readsBody && !n.mapped {
		return nil
	}
	return fmt.Errorf("{%s} is a short name, which only the directive has; elsewhere write {%s%[1]s}, or \\{%[1]s} for a text in braces",
		n.short[0], bodyplan.Prefix)
}
