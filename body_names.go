package redisratelimit

import (
	"encoding/json"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyplan"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
)

// bodyNames are the values of request bodies that other handlers than limiters name by placeholders, such as a map that a
// limit depends on, or a log. The zero value has not looked for any.
type bodyNames struct {
	known   bool
	sources []bodyplan.Source
}

// of looks for them once, when the first limiter of a configuration is set up: modules that are not set up by then are
// JSON, and the others are looked through.
func (n *bodyNames) of(ctx caddy.Context, limits func(caddyhttp.MiddlewareHandler) bool) []bodyplan.Source {
	if n.known {
		return n.sources
	}
	n.known = true
	for _, module := range ctx.Modules() {
		app, ok := module.(*caddyhttp.App)
		if !ok {
			continue
		}
		found := namesIn(app.Servers)
		for handler := range routetrace.Handlers(app.Servers) {
			if !limits(handler) {
				found = append(found, namesIn(handler)...)
			}
		}
		for _, name := range found {
			if source, err := bodyplan.ParseSource(name); err == nil { // another name has no value
				n.sources = append(n.sources, source)
			}
		}
	}
	return n.sources
}

// namesIn returns the body's placeholders in the configuration of a module, without those in limiters.
func namesIn(module any) []string {
	text, err := json.Marshal(module)
	if err != nil {
		return nil // it is no module of JSON alone, and cannot have a text from a configuration
	}
	return bodyplan.NamesInJSON(text, func(object map[string]any) bool { return object["handler"] == appName })
}
