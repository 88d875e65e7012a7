// Command caddy is Caddy with its standard modules and the rate limiting
// handler of this repository.
//
// It builds with nothing but Go, so it suits a first try and the tests. To
// combine the handler with other plugins, build Caddy with xcaddy instead:
//
//	xcaddy build --with github.com/redis-ratelimit/caddy-redis-ratelimit
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/redis-ratelimit/caddy-redis-ratelimit"
)

func main() {
	caddycmd.Main()
}
