package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/delay"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/load"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// target is a server that runs.
type target struct {
	process *serve.Process
	store   store
	path    string
	status  int // of its answers
}

// store is what a server keeps its counts in: nothing, a Redis or a cluster, the Redis perhaps
// behind a proxy.
type store struct {
	cluster   bool
	delay     delay.Options
	proxy     *delay.Proxy
	processes []*serve.Process
}

// refusing makes 429 the status of a target whose requests are all to be denied.
func (t *target) refusing() *target {
	if t != nil {
		t.status = http.StatusTooManyRequests
	}
	return t
}

// storeCPU is the processor time that the stores have used.
func (t *target) storeCPU() (sum time.Duration) {
	for _, process := range t.store.processes {
		sum += process.CPU()
	}
	return sum
}

// check asks the server until it answers as it should: with its status and, if it is a Caddy, the
// headers of a limiter. The first requests of a limit of one are allowed, and a client may still
// be connecting.
func (t *target) check(ctx context.Context) error {
	const attempts = 50
	var err error
	for range attempts {
		if err = t.ask(ctx); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%s: %w", t.process.Name, err)
}

func (t *target) ask(ctx context.Context) error {
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
	if response.StatusCode != t.status {
		return fmt.Errorf("answers %s, want %d", response.Status, t.status)
	}
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		if t.path == "/" && response.Header.Get(name) == "" {
			return fmt.Errorf("answers without the header %s", name)
		}
	}
	return nil
}

// wrong is the part of the answers that did not come or had another status than they should.
func (t *target) wrong(result load.Result, requests float64) float64 {
	wrong := result.Refused
	if t.status == http.StatusTooManyRequests {
		wrong = 1 - wrong
	}
	return wrong + float64(result.Failed)/requests
}
