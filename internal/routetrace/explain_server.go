package routetrace

import (
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
)

// serverOf finds the server that takes a request: the one that listens at its URL's port, or for a URL without a port
// the only one that has limits.
func serverOf(servers map[string]*caddyhttp.Server, plans map[string]*Plan, r *http.Request) (string, error) {
	if name, err := listenerAt(servers, r.URL); name != "" || err != nil {
		return name, err
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
		return limited[0], nil
	}
	return "", adminapi.BadInput("url: no server listens at port %s", portOf(r.URL))
}

// listenerAt finds the server that listens at a URL's address; empty where none does.
func listenerAt(servers map[string]*caddyhttp.Server, target *url.URL) (string, error) {
	var found []string
	port := portOf(target)
	nearest := listensAtPort
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		near := nearnessOf(servers[name], target.Hostname(), port)
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
	return "", adminapi.BadInput("url: several servers listen at port %s; put the address of one into the URL, and the site's name "+
		"into the header Host", port)
}
