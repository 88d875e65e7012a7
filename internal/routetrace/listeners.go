package routetrace

import (
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
)

// nearness is how near a server's addresses come to those of a URL.
type nearness int

// The degrees of nearness.
const (
	listensElsewhere nearness = iota
	listensAtPort             // of an address that the URL does not show
	listensAnywhere           // at every address of the machine
	listensThere              // at the very address
)

// nearnessOf returns how near a server listens to a host and port.
func nearnessOf(server *caddyhttp.Server, host, port string) (nearest nearness) {
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

// Listens reports whether a server listens at a port.
func Listens(server *caddyhttp.Server, port string) bool {
	return nearnessOf(server, "", port) > listensElsewhere
}

// PortsOf lists the ports that a server listens at.
func PortsOf(server *caddyhttp.Server) (ports []string) {
	for _, text := range server.Listen {
		address, err := caddy.ParseNetworkAddress(text)
		if err != nil || address.IsUnixNetwork() {
			continue
		}
		for port := address.StartPort; port <= address.EndPort && port != 0; port++ {
			ports = append(ports, strconv.FormatUint(uint64(port), 10))
		}
	}
	return ports
}

func hasPort(address caddy.NetworkAddress, port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && uint64(address.StartPort) <= n && n <= uint64(address.EndPort)
}

// portOf returns the port of a URL: its own, or that of its scheme.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// serverOf finds the server that takes a request: the one that listens at its URL's port, or for a URL without a port
// the only one that has limits.
func serverOf(trees map[string]*Tree, r *http.Request) (string, error) {
	if name, err := listenerAt(trees, r.URL); name != "" || err != nil {
		return name, err
	}
	var limited []string
	for name, tree := range trees {
		if tree.hasLimiter() {
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
func listenerAt(trees map[string]*Tree, target *url.URL) (string, error) {
	var found []string
	port := portOf(target)
	nearest := listensAtPort
	for _, name := range slices.Sorted(maps.Keys(trees)) {
		near := nearnessOf(trees[name].server, target.Hostname(), port)
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
