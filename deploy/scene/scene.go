// Package scene runs this repository's Caddy on a real Redis, so that its metrics count real requests.
package scene

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// caddyfile has a policy for each thing that metrics count.
//
//go:embed Caddyfile
var caddyfile []byte

// Scene is a running Caddy with its Redis and upstream.
type Scene struct {
	dir                  string
	site, admin, redisAt string // host:port of each
	caddy, redis         *process
	client               *http.Client
	upstream             *upstream
}

// Start starts all three, with a Caddy from [Build]. Their files go into the folder.
func Start(ctx context.Context, binary, dir string) (*Scene, error) {
	s := &Scene{dir: dir, client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
		Timeout:   10 * time.Second,
	}}
	for _, addr := range []*string{&s.site, &s.admin, &s.redisAt} {
		var err error
		if *addr, err = freeAddr(); err != nil {
			return nil, err
		}
	}
	if err := s.StartRedis(ctx); err != nil {
		return nil, err
	}
	var err error
	if s.upstream, err = startUpstream(ctx); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.startCaddy(ctx, binary); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Scene) startCaddy(ctx context.Context, binary string) error {
	file := filepath.Join(s.dir, "Caddyfile")
	if err := os.WriteFile(file, caddyfile, 0o600); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(s.site)
	if err != nil {
		return err
	}
	env := []string{"PORT=" + port, "ADMIN=" + s.admin, "REDIS=" + s.redisAt, "UPSTREAM=" + s.upstream.addr}
	s.caddy, err = start(ctx, s.dir, s.site, env, binary, "run", "--config", file, "--adapter", "caddyfile")
	return err
}

// StartRedis starts an empty Redis. Its address stays the same.
func (s *Scene) StartRedis(ctx context.Context) (err error) {
	_, port, err := net.SplitHostPort(s.redisAt)
	if err != nil {
		return err
	}
	s.redis, err = start(ctx, s.dir, s.redisAt, nil, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	return err
}

// KillRedis ends Redis at once.
func (s *Scene) KillRedis() { s.redis.stop(syscall.SIGKILL) }

// KillRedisDuring kills Redis while the upstream handles a request, so that the request's refund fails.
func (s *Scene) KillRedisDuring(ctx context.Context, path, client string) error {
	done := make(chan error, 1)
	go func() {
		status, err := s.Get(ctx, path, client)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s is answered with %d", path, status)
		}
		done <- err
	}()
	select {
	case respond := <-s.upstream.requests:
		s.KillRedis()
		close(respond)
		return <-done
	case err := <-done:
		return fmt.Errorf("the upstream got no request: %w", err)
	}
}

// Close stops all three.
func (s *Scene) Close() {
	if s.caddy != nil {
		s.caddy.stop(syscall.SIGTERM)
	}
	if s.upstream != nil {
		_ = s.upstream.server.Close() // its requests have ended with Caddy
	}
	s.KillRedis()
}

// Get sends a request as one of the clients and returns the status of the response. Headers are pairs
// of a name and a value.
func (s *Scene) Get(ctx context.Context, path, client string, headers ...string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.site+path, http.NoBody)
	if err != nil {
		return 0, err
	}
	r.Header.Set("X-Client", client)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body) // so that the connection is reused
	return response.StatusCode, err
}

// Metrics returns the text of /metrics.
func (s *Scene) Metrics(ctx context.Context) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the metrics' status is %s", response.Status)
	}
	return io.ReadAll(response.Body)
}
