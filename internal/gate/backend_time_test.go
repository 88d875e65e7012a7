package gate

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// TestExchange_backendTime has handlers answer after 900 ms, 200 of which directives further in held the request for. A
// backend took 50 ms, where one was asked.
func TestExchange_backendTime(t *testing.T) {
	t.Parallel()
	const latency, elapsed = 50 * time.Millisecond, 700 * time.Millisecond
	asked := map[string]any{proxyLatency: latency}
	sent := map[string]any{proxyLatency: latency, proxySent: time.Second, proxyRetries: 0}
	retried := map[string]any{proxyLatency: latency, proxySent: time.Second, proxyRetries: 1}
	handled := map[string]any{errorHandled: "an error"}
	begun := rule.Response{Begun: true}
	for name, test := range map[string]struct {
		proxies  Proxies
		seen     map[string]any // placeholders
		earlier  any            // the latency before the handlers behind were called
		response rule.Response
		panics   bool // the handlers behind do
		want     time.Duration
	}{
		"a proxy":                    {Proxies{}, sent, nil, begun, false, latency},
		"one that may try again":     {Proxies{Retry: true}, sent, nil, begun, false, latency},
		"one that has":               {Proxies{Retry: true}, retried, nil, begun, false, elapsed},
		"one that may have":          {Proxies{Retry: true}, asked, nil, begun, true, elapsed},
		"a body that breaks off":     {Proxies{}, asked, nil, begun, true, latency},
		"the same, beside a guard":   {Proxies{Pass: true}, asked, nil, begun, true, latency},
		"a guard alone":              {Proxies{Pass: true}, asked, nil, begun, false, 0},
		"a guard in front":           {Proxies{Pass: true}, asked, latency, begun, false, 0},
		"a guard and a proxy":        {Proxies{Pass: true}, sent, nil, begun, false, latency},
		"both, with tries":           {Proxies{Pass: true, Retry: true}, sent, nil, begun, false, elapsed},
		"a WebSocket":                {Proxies{Pass: true}, asked, nil, begun, false, latency},
		"an answer in its place":     {Proxies{Pass: true, Answer: true}, asked, nil, begun, false, latency},
		"Caddy":                      {Proxies{Retry: true, Pass: true, Answer: true}, nil, nil, begun, false, 0},
		"Caddy, by an error":         {Proxies{}, nil, nil, begun, false, 0},
		"routes for an error":        {Proxies{}, handled, nil, begun, false, elapsed},
		"a handler of others":        {Proxies{Foreign: true}, nil, nil, begun, false, elapsed},
		"one behind a guard":         {Proxies{Foreign: true, Pass: true}, asked, nil, begun, false, elapsed},
		"no answer":                  {Proxies{}, nil, nil, rule.Response{}, false, elapsed},
		"none after an earlier one":  {Proxies{}, asked, nil, rule.Response{}, false, elapsed},
		"a client that left":         {Proxies{}, nil, nil, rule.Response{}, false, elapsed},
		"a handler that breaks down": {Proxies{}, nil, nil, rule.Response{}, true, elapsed},
	} {
		server := new(caddyhttp.Server)
		repl := caddy.NewEmptyReplacer()
		for placeholder, value := range test.seen {
			repl.Set(placeholder, value)
		}
		ctx := context.WithValue(context.WithValue(t.Context(), caddy.ReplacerCtxKey, repl), caddyhttp.ServerCtxKey, server)
		now := clock.Now()
		timing := &backendTiming{
			called: now.Add(-900 * time.Millisecond), held: 200 * time.Millisecond, returned: !test.panics, switched: name == "a WebSocket",
		}
		if test.response.Begun && name != "Caddy, by an error" || name == "a client that left" {
			timing.answered = now
		}
		x := &Exchange{
			limiter:  &Limiter{server: &ownServer{findProxies: func(*caddyhttp.Server) Proxies { return test.proxies }}},
			request:  httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody),
			decision: &sharedDecision{rare: &sharedRare{held: 400 * time.Millisecond}},
			pending:  &pendingWork{response: test.response, timing: timing, answered: test.earlier},
		}
		got := x.backendTime()
		// What has not answered ends now.
		assert.ErrorIf(t, got < test.want || test.want != elapsed && got != test.want || got > test.want+time.Minute,
			"%s: got %v, want %v", name, got, test.want)
	}
	assert.Equal(t, (&Exchange{pending: new(pendingWork)}).backendTime(), 0, "the time of what was never called")
}
