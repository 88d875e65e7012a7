package redisratelimit

import (
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// nodeOf finds the server that takes a request. Where the URL is a mere path it is the only one that
// has limits, and the request gets the host of the only site there that has.
func serverOf(servers map[string]*caddyhttp.Server, r *http.Request) (string, error) {
	if r.URL.Host != "" {
		if name, err := listenerAt(servers, r.URL); name != "" || err != nil {
			return name, err
		}
	}
	var limited []string
	for name, server := range servers {
		if hasLimiter(newRoutePlan(server.Routes, server.NamedRoutes).routes) {
			limited = append(limited, name)
		}
	}
	switch {
	case len(limited) == 0:
		return "", badInput("url: no server of this configuration has limits")
	case len(limited) == 1 && r.URL.Port() == "":
		return limited[0], nameHost(r, servers[limited[0]])
	case r.URL.Host == "":
		return "", badInput("url: several servers have limits; name host and port, such as https://example.com:8443/search")
	}
	return "", badInput("url: no server listens at port %s", portOf(r.URL))
}

// listenerAt finds the server that listens where a URL leads to; empty where none does.
func listenerAt(servers map[string]*caddyhttp.Server, target *url.URL) (string, error) {
	var found []string
	nearest := listensAtPort
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		near := nearness(servers[name], target.Hostname(), portOf(target))
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
	return "", badInput("url: several servers listen at port %s; put the address of one into the URL, and the site's name into the header Host", portOf(target))
}

// How near a server's addresses come to those of a URL.
const (
	listensElsewhere = iota
	listensAtPort    // of an address that the URL does not show
	listensAnywhere  // at every address of the machine
	listensThere     // at the very address
)

func nearness(server *caddyhttp.Server, host, port string) (nearest int) {
	for _, text := range server.Listen {
		address, err := caddy.ParseNetworkAddress(text)
		if err != nil || !hasPort(address, port) {
			continue
		}
		near := listensAtPort
		own, err := netip.ParseAddr(address.Host)
		there, notAddress := netip.ParseAddr(host)
		switch {
		case address.Host == host, err == nil && notAddress == nil && own == there:
			near = listensThere
		case address.Host == "", err == nil && own.IsUnspecified():
			near = listensAnywhere
		}
		nearest = max(nearest, near)
	}
	return nearest
}

func listensAt(server *caddyhttp.Server, port string) bool {
	return nearness(server, "", port) > listensElsewhere
}

func hasPort(address caddy.NetworkAddress, port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && uint64(address.StartPort) <= n && n <= uint64(address.EndPort)
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// nameHost gives a request that has no host the one of the only site of a server that has limits.
func nameHost(r *http.Request, server *caddyhttp.Server) error {
	if r.Host != "" {
		return nil
	}
	var a matcherInputs
	a.addRoutes(newRoutePlan(server.Routes, server.NamedRoutes).routes, false)
	switch host := a.onlyHost(); {
	case host != "":
		r.Host = host
	case len(a.hosts) > 0:
		return badInput("url: the sites that have limits go by the host; name one, such as https://example.com/search")
	}
	return nil
}
