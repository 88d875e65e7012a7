package routetrace

import (
	"net/netip"
	"net/url"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Nearness is how near a server's addresses come to those of a URL.
type Nearness int

// The degrees of nearness.
const (
	ListensElsewhere Nearness = iota
	ListensAtPort             // of an address that the URL does not show
	ListensAnywhere           // at every address of the machine
	ListensThere              // at the very address
)

// NearnessOf returns how near a server listens to a host and port.
func NearnessOf(server *caddyhttp.Server, host, port string) (nearest Nearness) {
	for _, text := range server.Listen {
		address, err := caddy.ParseNetworkAddress(text)
		if err != nil || !hasPort(address, port) {
			continue
		}
		near := ListensAtPort
		own, err := netip.ParseAddr(address.Host)
		there, notAddress := netip.ParseAddr(host)
		switch {
		case address.Host == host, err == nil && notAddress == nil && own == there:
			near = ListensThere
		case address.Host == "", err == nil && own.IsUnspecified():
			near = ListensAnywhere
		}
		nearest = max(nearest, near)
	}
	return nearest
}

// Listens reports whether a server listens at a port.
func Listens(server *caddyhttp.Server, port string) bool {
	return NearnessOf(server, "", port) > ListensElsewhere
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

// PortOf returns the port of a URL: its own, or that of its scheme.
func PortOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
