package routetrace

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// appendingSources are CDNs that append to the X-Forwarded-For of clients, by the source of trusted proxies that has their
// addresses, with the header that clients cannot write.
var appendingSources = map[string]string{
	"cloudflare": "CF-Connecting-IP", // developers.cloudflare.com/fundamentals/reference/http-headers
}

// appendingSource returns what is wrong with the trusted proxies of a server whose first address in X-Forwarded-For counts, if
// they are a CDN that appends to it; empty: nothing.
func appendingSource(server *caddyhttp.Server) string {
	source := strings.TrimPrefix(rule.TrustedSource(server), "http.ip_sources.")
	header := appendingSources[source]
	first := "X-Forwarded-For"
	if len(server.ClientIPHeaders) > 0 {
		first = server.ClientIPHeaders[0]
	}
	if header == "" || server.TrustedProxiesStrict > 0 || !strings.EqualFold(first, "X-Forwarded-For") {
		return ""
	}
	return fmt.Sprintf("trusted_proxies %s: X-Forwarded-For begins with what clients write, and counts; "+
		"write client_ip_headers %s, or trusted_proxies_strict, in the global option servers", source, header)
}
