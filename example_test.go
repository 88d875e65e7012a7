package redisratelimit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	_ "github.com/redis-ratelimit/caddy-redis-ratelimit"
)

// Handlers after redis_ratelimit, error routes and access logs find the decision in placeholders.
func Example_placeholders() {
	config, err := caddy.ProvisionContext(new(caddy.Config))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, end := caddy.NewContext(config)
	defer end()
	module, err := ctx.LoadModuleByID("http.handlers.redis_ratelimit", json.RawMessage(`{
		"policies": [{"name": "searches", "limit": 2, "window": "1h", "algorithm": "token_bucket"}]
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	limit, _ := module.(caddyhttp.MiddlewareHandler)
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })

	for range 3 {
		repl, w := caddy.NewReplacer(), httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/search", http.NoBody)
		r = caddyhttp.PrepareRequest(r, repl, w, new(caddyhttp.Server))
		err := limit.ServeHTTP(w, r, next)
		fmt.Println(repl.ReplaceAll("{http.redis_ratelimit.decision} by {http.redis_ratelimit.policy} in {http.redis_ratelimit.source}: "+
			"{http.redis_ratelimit.remaining} of {http.redis_ratelimit.limit} left", ""), err != nil)
	}
	// Output:
	// allowed by searches in memory: 1 of 2 left false
	// allowed by searches in memory: 0 of 2 left false
	// denied by searches in memory: 0 of 2 left true
}
