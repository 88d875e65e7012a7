package rule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyplan"
)

// request is a request as rules read it.
type request struct {
	*http.Request
	repl *caddy.Replacer  // of the request's placeholders
	body *bodyplan.Values // nil: no rule has needed a value of the body so far, or no body can be read
}
