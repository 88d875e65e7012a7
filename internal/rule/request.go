package rule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
)

// request is a request as rules read it.
type request struct {
	*http.Request
	repl *caddy.Replacer // of the request's placeholders
}
