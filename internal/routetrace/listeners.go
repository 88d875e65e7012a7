package routetrace

import (
	"net/netip"
	"net/url"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
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
