package routetrace

import (
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// Kind is what a handler means for a request on its way.
type Kind int

// The kinds of handlers.
const (
	unknown       Kind = iota // only a real request can tell
	PassesThrough             // every request goes on as it is
	Mutates                   // what follows depends on it, so that it is run
	Answers                   // every request ends here, if only with an error
	nests                     // the routes inside decide: of a subroute, or of a named route that is invoked
	limits                    // its limiter decides
)

// mutatingHandlers are run.
var mutatingHandlers = []string{"vars", "map", "rewrite", "headers"}

// passThroughHandlers let every request go on, whatever they do besides.
var passThroughHandlers = []string{
	"copy_response", "copy_response_headers", "encode", "intercept", "log_append", "push", "request_body",
	"templates", "tracing",
}

// nestingHandlers have routes inside that requests go through.
var nestingHandlers = []string{"subroute", "invoke"}

// answeringHandlers is the one table of handlers that answer every request, and on what that depends.
var answeringHandlers = map[string]func(Facts) bool{
	"error":           func(Facts) bool { return true },
	"metrics":         func(Facts) bool { return true },
	"static_response": func(f Facts) bool { return !f.EarlyHints },
	"file_server":     func(f Facts) bool { return !f.PassThru },
	"reverse_proxy":   func(f Facts) bool { return !f.ResponseRoutes },
}

// HandlerSpace begins the IDs of handlers' modules.
const HandlerSpace = "http.handlers."

// earlyHints is the status of a response that does not end a request.
const earlyHints = "103"

// Facts are what the kind of a handler depends on. They are read from a handler that is provisioned,
// or from its JSON.
type Facts struct {
	// Name is the module's ID after [HandlerSpace].
	Name string

	// PassThru says that a file_server passes requests for missing files on.
	PassThru bool

	// ResponseRoutes says that a reverse_proxy has routes for responses, which may pass requests on, as
	// forward_auth does.
	ResponseRoutes bool

	// EarlyHints says that a static_response has the status 103.
	EarlyHints bool
}

// factsOf reads the facts of a provisioned handler.
func factsOf(handler caddyhttp.MiddlewareHandler) (f Facts) {
	f.Name = "unknown"
	if module, ok := handler.(caddy.Module); ok {
		f.Name = strings.TrimPrefix(string(module.CaddyModule().ID), HandlerSpace)
	}
	switch handler := handler.(type) {
	case *caddyhttp.StaticResponse:
		f.EarlyHints = handler.StatusCode == earlyHints
	case *fileserver.FileServer:
		f.PassThru = handler.PassThru
	case *reverseproxy.Handler:
		f.ResponseRoutes = slices.ContainsFunc(handler.HandleResponse, func(h caddyhttp.ResponseHandler) bool { return len(h.Routes) > 0 })
	}
	return f
}

// moduleID is the ID of the handler's module.
func (f Facts) moduleID() string {
	if f.Name == "unknown" {
		return f.Name
	}
	return HandlerSpace + f.Name
}

// Kind returns the kind of a handler, as far as it is known without its limiter.
func (f Facts) Kind() Kind {
	switch answer := answeringHandlers[f.Name]; {
	case slices.Contains(mutatingHandlers, f.Name):
		return Mutates
	case slices.Contains(passThroughHandlers, f.Name):
		return PassesThrough
	case slices.Contains(nestingHandlers, f.Name):
		return nests
	case answer == nil:
		return unknown
	case answer(f):
		return Answers
	case f.Name == "static_response":
		return PassesThrough
	}
	return unknown
}

// isForeign reports whether a module is neither Caddy's nor of this project.
func isForeign(module any) bool {
	author := reflect.Indirect(reflect.ValueOf(module)).Type().PkgPath()
	return !strings.HasPrefix(author, "github.com/caddyserver/caddy/") && !strings.HasPrefix(author, "github.com/redis-ratelimit/")
}
