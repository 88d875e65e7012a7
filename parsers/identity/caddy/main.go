// Command caddy is Caddy with this module, and with a handler identity_told, which answers what the module makes of a
// request.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/redis-ratelimit/caddy-redis-ratelimit"
)

func main() {
	caddycmd.Main()
}
