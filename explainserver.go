package redisratelimit

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// serverOf finds the server that listens at a request's port. Where the URL names none it is the
// only one that has limits.
func serverOf(servers map[string]*caddyhttp.Server, r *http.Request) (string, error) {
	port := portOf(r.URL)
	if r.URL.Host != "" {
		for _, name := range slices.Sorted(maps.Keys(servers)) {
			if listensAt(servers[name], port) {
				return name, nil
			}
		}
	}
	var limited []string
	for name, server := range servers {
		if hasLimiter(newCourse(server.Routes, server.NamedRoutes).routes) {
			limited = append(limited, name)
		}
	}
	switch {
	case len(limited) == 0:
		return "", badInput("url: no server of this configuration has limits")
	case len(limited) == 1 && r.URL.Port() == "":
		return limited[0], nil
	case r.URL.Host == "":
		return "", badInput("url: several servers have limits; name host and port, such as https://example.com:8443/search")
	}
	return "", badInput("url: no server listens at port %s", port)
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

func listensAt(server *caddyhttp.Server, port string) bool {
	for _, text := range server.Listen {
		address, err := caddy.ParseNetworkAddress(text)
		if err != nil {
			continue
		}
		for p := address.StartPort; p <= address.EndPort && p != 0; p++ {
			if strconv.FormatUint(uint64(p), 10) == port {
				return true
			}
		}
	}
	return false
}
