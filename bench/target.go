package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/load"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// target is a running server.
type target struct {
	server  server
	process *serve.Process
	redis   *serve.Process // nil: none
	path    string
}

// redisCPU returns the processor time of Redis.
func (t *target) redisCPU() time.Duration {
	if t.redis == nil {
		return 0
	}
	return t.redis.CPU()
}

// check sends requests until the response is right: its status and, from a Caddy, the headers of a
// limiter. The first request of a limit of one is allowed, and the client of Redis may still connect.
func (t *target) check(ctx context.Context) error {
	const attempts = 50
	var err error
	for range attempts {
		if err = t.request(ctx); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%s: %w", t.process.Name, err)
}

func (t *target) request(ctx context.Context) error {
	method, body := http.MethodGet, ""
	if t.path == "/json" {
		method, body = http.MethodPost, `{"domain":"bench","descriptors":[{"entries":[{"key":"client","value":"check"}]}]}`
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+t.process.Addr+t.path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("X-Key", "check")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != t.server.status() {
		return fmt.Errorf("answers %s, want %d", response.Status, t.server.status())
	}
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		if !t.server.unlimited && response.Header.Get(name) == "" {
			return fmt.Errorf("answers without the header %s", name)
		}
	}
	return nil
}

// wrong returns the fraction of requests without a response or with a wrong status.
func (t *target) wrong(result load.Result, requests float64) float64 {
	wrong := result.Refused
	if t.server.status() == http.StatusTooManyRequests {
		wrong = 1 - wrong
	}
	return wrong + float64(result.Failed)/requests
}
