package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	clients map[int]*load.Client // by their connections
}

// client returns the load generator of so many connections, which stay open.
func (t *target) client(connections int) (*load.Client, error) {
	if t.clients == nil {
		t.clients = map[int]*load.Client{}
	}
	if t.clients[connections] == nil {
		dialed, err := load.Dial(t.process.Addr, connections)
		if err != nil {
			return nil, err
		}
		t.clients[connections] = dialed
	}
	return t.clients[connections], nil
}

func (t *target) stop() {
	for _, client := range t.clients {
		client.Close()
	}
	t.process.Stop()
}

// requests returns a request of each client.
func (t *target) requests(clients int) [][]byte {
	requests := make([][]byte, clients)
	for i := range requests {
		request := t.request(fmt.Sprintf("203.0.%03d.%03d", i/256, i%256))
		var text bytes.Buffer
		_ = request.Write(&text) // a buffer takes all
		requests[i] = text.Bytes()
	}
	return requests
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
		if err = t.answers(ctx); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%s: %w", t.process.Name, err)
}

// request returns a request of a client.
func (t *target) request(client string) *http.Request {
	method, body := http.MethodGet, ""
	if t.path == "/json" {
		descriptors := make([]string, t.server.policies)
		for i, unit := range serve.EnvoyUnits[:t.server.policies] {
			descriptors[i] = fmt.Sprintf(`{"entries":[{"key":%q,"value":%q}]}`, unit, client)
		}
		method, body = http.MethodPost, fmt.Sprintf(`{"domain":"bench","descriptors":[%s]}`, strings.Join(descriptors, ","))
	}
	request := httptest.NewRequest(method, "http://"+t.process.Addr+t.path, strings.NewReader(body))
	request.Header.Set("X-Key", client)
	return request
}

// answers sends a request and returns what is wrong with the response.
func (t *target) answers(ctx context.Context) error {
	request := t.request("check").WithContext(ctx)
	request.RequestURI = ""
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

// wrong returns how many requests got a wrong status.
func (t *target) wrong(result load.Result, requests int) int {
	if t.server.status() == http.StatusTooManyRequests {
		return requests - result.Denied
	}
	return result.Denied + result.Failed
}
