package tryout

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
)

// outline is what the JSON of a configuration says that is not set up.
type outline struct {
	handlers []string          // the names of all handlers
	policies []string          // the names of all policies
	setters  map[string]string // by header of requests: what sets it to what another server has answered
}

// newOutline reads the routes of a configuration. Of what is no configuration there is nothing: the simulation says what is wrong.
func newOutline(config []byte) *outline {
	var whole struct {
		Apps struct {
			HTTP struct {
				Servers map[string]any `json:"servers"`
			} `json:"http"`
		} `json:"apps"`
	}
	o := &outline{setters: map[string]string{}}
	if json.Unmarshal(config, &whole) == nil {
		for _, server := range whole.Apps.HTTP.Servers {
			o.walk(server, "")
		}
	}
	slices.Sort(o.policies)
	o.policies = slices.Compact(o.policies)
	return o
}

// check returns an error for a handler whose module Caddy does not have.
func (o *outline) check() error {
	for _, name := range o.handlers {
		if _, err := caddy.GetModule("http.handlers." + name); err != nil {
			return fmt.Errorf("the configuration has the handler %q, and this Caddy no module http.handlers.%s: build Caddy with it", name, name)
		}
	}
	return nil
}

// walk reads a value, within the responses of a handler or, if that is empty, of none.
func (o *outline) walk(value any, responder string) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			o.walk(element, responder)
		}
	case map[string]any:
		name, isHandler := value["handler"].(string)
		if isHandler {
			o.addHandler(name, value, responder)
		}
		for key, inner := range value {
			within := responder
			if isHandler && key == "handle_response" {
				within = name
			}
			o.walk(inner, within)
		}
	}
}

// addHandler notes a handler, the policies that it has, and the headers of requests that it sets.
func (o *outline) addHandler(name string, value map[string]any, responder string) {
	o.handlers = append(o.handlers, name)
	policies, _ := value["policies"].([]any)
	for _, policy := range policies {
		options, _ := policy.(map[string]any)
		if named, _ := options["name"].(string); name == "redis_ratelimit" && named != "" {
			o.policies = append(o.policies, named)
		}
	}
	request, _ := value["request"].(map[string]any)
	if name != "headers" || responder == "" {
		return
	}
	if responder == "reverse_proxy" {
		responder = "forward_auth"
	}
	for _, operation := range []string{"set", "add"} {
		fields, _ := request[operation].(map[string]any)
		for field := range fields {
			o.setters[http.CanonicalHeaderKey(field)] = responder
		}
	}
}
