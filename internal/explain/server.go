package explain

import (
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
)

// serverOf finds the server that takes a request. For a URL that is a mere path it is the only one that
// has limits, and the request gets the host of the only site there that has.
func serverOf(servers map[string]*caddyhttp.Server, plans map[string]*routetrace.Plan, r *http.Request) (string, error) {
	if r.URL.Host != "" {
		if name, err := listenerAt(servers, r.URL); name != "" || err != nil {
			return name, err
		}
	}
	var limited []string
	for name, plan := range plans {
		if plan.HasLimiter() {
			limited = append(limited, name)
		}
	}
	switch {
	case len(limited) == 0:
		return "", adminapi.BadInput("url: no server of this configuration has limits")
	case len(limited) == 1 && r.URL.Port() == "":
		return limited[0], nameHost(r, plans[limited[0]])
	case r.URL.Host == "":
		return "", adminapi.BadInput("url: several servers have limits; name host and port, such as https://example.com:8443/search")
	}
	return "", adminapi.BadInput("url: no server listens at port %s", routetrace.PortOf(r.URL))
}

// listenerAt finds the server that listens at a URL's address; empty where none does.
func listenerAt(servers map[string]*caddyhttp.Server, target *url.URL) (string, error) {
	var found []string
	port := routetrace.PortOf(target)
	nearest := routetrace.ListensAtPort
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		near := routetrace.NearnessOf(servers[name], target.Hostname(), port)
		if near > nearest {
			nearest, found = near, nil
		}
		if near == nearest {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	return "", adminapi.BadInput("url: several servers listen at port %s; put the address of one into the URL, and the site's name into the header Host", port)
}

// nameHost gives a request without a host the one of the only site that has limits.
func nameHost(r *http.Request, plan *routetrace.Plan) error {
	if r.Host != "" {
		return nil
	}
	var inputs routetrace.MatcherInputs
	inputs.Add(plan)
	switch host := inputs.OnlyHost(); {
	case host != "":
		r.Host = host
	case len(inputs.Hosts) > 0:
		return adminapi.BadInput("url: the sites that have limits go by the host; name one, such as https://example.com/search")
	}
	return nil
}
