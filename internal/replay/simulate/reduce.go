package simulate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
)

// reducedConfig is what of a configuration decides about rate limits. Nothing in it is set up yet.
type reducedConfig struct {
	app     json.RawMessage // the redis_ratelimit app without its Redis; nil where there is none
	servers map[string]*reducedServer
	schemes schemePorts
	log     accesslog.ReaderOptions // as far as the configuration's own logs decide
	masks   []clientMask            // of clients in these logs

	fileSystems []string // names
}

// reducedServer is what is left of a server.
type reducedServer struct {
	Listen      []string                    `json:"listen"`
	Routes      caddyhttp.RouteList         `json:"routes"`
	NamedRoutes map[string]*caddyhttp.Route `json:"named_routes"`
	TLS         []json.RawMessage           `json:"tls_connection_policies"`

	ExpectedUnderscoreHeaders []string `json:"expected_underscore_headers"`
	ExpectedDotHeaders        []string `json:"expected_dot_headers"`

	proxyConfig

	repeatable, mayAnswer bool // see [simServer]
}

// statefulMarkers are words of what keeps a request as it was at first, or keeps something for later ones.
var statefulMarkers = []string{"request.orig_", "request.uuid", "regexp", "file"}

// isStateful reports whether something that is left of a server keeps requests.
func (s *reducedServer) isStateful() (bool, error) {
	text, err := json.Marshal(s)
	return slices.ContainsFunc(statefulMarkers, func(word string) bool { return bytes.Contains(text, []byte(word)) }), err
}

// names are those of the servers in order; those with TLS first, as most of the traffic is theirs.
func (c *reducedConfig) names() []string {
	names := slices.Sorted(maps.Keys(c.servers))
	slices.SortStableFunc(names, func(a, b string) int { return len(c.servers[b].TLS) - len(c.servers[a].TLS) })
	return names
}

// wholeConfig is what is read of a configuration.
type wholeConfig struct {
	Logging loggingConfig `json:"logging"`
	Apps    struct {
		HTTP struct {
			HTTPPort  int                       `json:"http_port"`
			HTTPSPort int                       `json:"https_port"`
			Servers   map[string]*reducedServer `json:"servers"`
		} `json:"http"`
		RateLimit   map[string]json.RawMessage `json:"redis_ratelimit"`
		FileSystems struct {
			List []struct {
				Name string `json:"name"`
			} `json:"filesystems"`
		} `json:"caddy.filesystems"`
	} `json:"apps"`
}

// reduceConfig leaves out of a configuration what does not decide, and lists the handlers left out.
func reduceConfig(config []byte) (*reducedConfig, []string, error) {
	var whole wholeConfig
	if err := json.Unmarshal(config, &whole); err != nil {
		return nil, nil, fmt.Errorf("reading the configuration: %w", err)
	}
	web := &whole.Apps.HTTP
	reduced := &reducedConfig{servers: web.Servers, log: whole.Logging.options(), masks: whole.Logging.masks(), schemes: schemePorts{
		http:  strconv.Itoa(cmp.Or(web.HTTPPort, caddyhttp.DefaultHTTPPort)),
		https: strconv.Itoa(cmp.Or(web.HTTPSPort, caddyhttp.DefaultHTTPSPort)),
	}}
	for _, fileSystem := range whole.Apps.FileSystems.List {
		reduced.fileSystems = append(reduced.fileSystems, fileSystem.Name)
	}
	if whole.Apps.RateLimit != nil {
		delete(whole.Apps.RateLimit, "redis")
		app, err := json.Marshal(whole.Apps.RateLimit)
		if err != nil {
			return nil, nil, err
		}
		reduced.app = app
	}
	r := new(reducer)
	for name, server := range reduced.servers {
		if server == nil {
			return nil, nil, fmt.Errorf("server %s: is null", name)
		}
		if err := r.reduceServer(server); err != nil {
			return nil, nil, fmt.Errorf("server %s: %w", name, err)
		}
	}
	slices.Sort(r.skipped)
	return reduced, slices.Compact(r.skipped), nil
}

// reducer leaves out handlers.
type reducer struct {
	skipped   []string // those left out
	changes   bool     // one of those left changes requests for those after it
	mayAnswer bool     // one of those left out may be what answers requests
}

func (r *reducer) reduceServer(server *reducedServer) error {
	r.changes, r.mayAnswer = false, false
	if err := r.reduce(server.Routes); err != nil {
		return err
	}
	for named, route := range server.NamedRoutes {
		if route == nil {
			return fmt.Errorf("route %s is null", named)
		}
		if err := r.reduceRoute(route); err != nil {
			return fmt.Errorf("route %s: %w", named, err)
		}
	}
	stateful, err := server.isStateful()
	server.repeatable, server.mayAnswer = !r.changes && !stateful, r.mayAnswer
	return err
}

func (r *reducer) reduce(routes caddyhttp.RouteList) error {
	for i := range routes {
		if err := r.reduceRoute(&routes[i]); err != nil {
			return fmt.Errorf("route %d: %w", i, err)
		}
	}
	return nil
}

func (r *reducer) reduceRoute(route *caddyhttp.Route) error {
	var kept []json.RawMessage
	for _, raw := range route.HandlersRaw {
		handler, err := r.handler(raw)
		if err != nil {
			return err
		}
		if handler != nil {
			kept = append(kept, handler)
		}
	}
	route.HandlersRaw = kept
	return nil
}

// keptHandlers stay as they are, since they use nothing outside of a request.
var keptHandlers = []string{appName, "invoke", "static_response", "error"}

// handler is what is left of a handler; nil where nothing is.
func (r *reducer) handler(raw json.RawMessage) (json.RawMessage, error) {
	var known knownHandler
	if err := json.Unmarshal(raw, &known); err != nil || known.Handler == "" {
		return nil, errors.New("a handler has no name")
	}
	kind := known.facts().Kind()
	switch {
	case slices.Contains(keptHandlers, known.Handler):
		return raw, nil
	case known.Handler == "subroute":
		if err := r.reduce(known.Routes); err != nil {
			return nil, err
		}
		return json.Marshal(map[string]any{"handler": known.Handler, "routes": known.Routes})
	case kind == routetrace.Mutates:
		r.changes = true
		return raw, nil
	case kind == routetrace.PassesThrough:
		return nil, nil
	}
	r.skipped = append(r.skipped, routetrace.HandlerSpace+known.Handler)
	switch {
	case kind == routetrace.Answers && slices.Contains(contentHandlers, known.Handler):
		return json.RawMessage(`{"handler":"error","error":"` + contentMark + `"}`), nil
	case kind == routetrace.Answers:
		return json.RawMessage(`{"handler":"error"}`), nil
	case !slices.Contains(checkingHandlers, known.Handler):
		r.mayAnswer = true
	}
	return nil, nil
}

// contentHandlers answer with what a site is there for, of an application or of files.
var contentHandlers = []string{"reverse_proxy", "file_server"}

// contentMark is the text of the error that is left of a handler of content.
const contentMark = "content"

// checkingHandlers let a request pass or refuse it, where they are of a kind that a real request decides: forward_auth,
// basic_auth.
var checkingHandlers = []string{"reverse_proxy", "authentication"}

// knownHandler is what is read of a handler that is not set up.
type knownHandler struct {
	Handler string              `json:"handler"`
	Routes  caddyhttp.RouteList `json:"routes"`

	PassThru       bool `json:"pass_thru"`
	HandleResponse []struct {
		Routes []json.RawMessage `json:"routes"`
	} `json:"handle_response"`
}

// facts are what the handler's kind depends on.
func (k *knownHandler) facts() routetrace.Facts {
	f := routetrace.Facts{Name: k.Handler, PassThru: k.PassThru}
	for i := range k.HandleResponse {
		f.ResponseRoutes = f.ResponseRoutes || len(k.HandleResponse[i].Routes) > 0
	}
	return f
}
