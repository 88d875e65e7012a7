package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/contenders"
)

// The limits, as directives. Their key is the header in which the load generators name a client.
var (
	limitAllowed        = fmt.Sprintf("redis_ratelimit %s %s", clientKey, mostAllowed)
	limitDenied         = fmt.Sprintf("redis_ratelimit %s 1 24h", clientKey)
	limitWithoutHeaders = block("redis_ratelimit "+clientKey+" "+mostAllowed, "headers off")
	limitHot            = block("redis_ratelimit "+clientKey+" 10000000 1m", "lease") // that no run uses up by one key
	limitMholt          = block("rate_limit", "zone clients {", "key "+clientKey, "events 200", "window 10s", "}")
)

const clientKey = "{http.request.header.X-Key}"

// mostAllowed is the limit and window of all contenders.
var mostAllowed = fmt.Sprintf("%d %v", contenders.Limit, contenders.Window)

// block returns a directive with lines in braces.
func block(directive string, lines ...string) string {
	return directive + " {\n" + strings.Join(lines, "\n") + "\n}"
}

// constantHeaders sets the headers of a limiter without one, for their cost.
func constantHeaders(limit, remaining string) string {
	return block("header", "X-RateLimit-Limit "+limit, "X-RateLimit-Remaining "+remaining,
		fmt.Sprint("X-RateLimit-Reset ", time.Now().Add(contenders.Window).Unix()))
}
