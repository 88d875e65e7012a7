// Command caddy is the Caddy of the benchmarks, with its standard modules, this repository's handler
// and the contenders.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/mholt/caddy-ratelimit"

	_ "github.com/redis-ratelimit/caddy-redis-ratelimit"
	_ "github.com/redis-ratelimit/caddy-redis-ratelimit/bench/contenders"
)

func main() {
	caddycmd.Main()
}
