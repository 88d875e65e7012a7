package waiting

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// scene is clients of nodes, in front of a backend that counts what runs.
type scene struct {
	*gauge
	service time.Duration
	pause   time.Duration // of a client between two requests
	by      string        // the end of the option wait

	backend string
	urls    []string
	client  *http.Client
	clients sync.WaitGroup
	failed  sync.Map // other answers than 200, by their text
}

// newScene starts the backend of eight places.
func newScene(t *testing.T, service, pause time.Duration) *scene {
	t.Helper()
	s := &scene{gauge: newGauge(8), service: service, pause: pause}
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}
	s.backend = caddytest.Serve(t, s.serve)
	return s
}

// serve runs a request at the backend.
func (s *scene) serve(_ http.ResponseWriter, r *http.Request) {
	sent, _ := strconv.ParseInt(r.Header.Get("X-Sent"), 10, 64)
	s.start("", r.Header.Get("X-Group"), time.Since(time.Unix(0, sent)))
	<-time.After(service(s.service))
	s.end("")
}

// startNodes starts Caddys on a Redis.
func (s *scene) startNodes(t *testing.T, count int, server *redistest.Server) {
	t.Helper()
	config := caddytest.Quietly(caddytest.Config("redis_ratelimit {\nredis redis://"+server.Addr+"\ntimeout 1s\n}",
		"redis_ratelimit {\npolicy place {\nkey everyone\nmax_concurrent "+strconv.Itoa(s.limit)+"\nwait 10m 2000"+s.by+"\n}\n}\nreverse_proxy "+s.backend))
	for range count {
		s.urls = append(s.urls, caddytest.Start(t, config).URL)
	}
}

// send has a client send one request after the other to a node, until the context ends.
func (s *scene) send(ctx context.Context, url, group, user string) {
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			panic(err)
		}
		request.Header.Set("X-Group", group)
		request.Header.Set("X-User", user)
		request.Header.Set("X-Sent", strconv.FormatInt(time.Now().UnixNano(), 10))
		s.arrive("")
		response, err := s.client.Do(request)
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %d", response.StatusCode)
			}
		}
		if err != nil && ctx.Err() == nil {
			s.failed.Store(err.Error(), true)
		}
		select {
		case <-time.After(pauseOf(s.pause)):
		case <-ctx.Done():
		}
	}
}

// measure lets the clients send for a while, and then measures for another. begin and end stand around that.
func (s *scene) measure(t *testing.T, clients func(begin func(node int, group, user string)), warm, span time.Duration, y *tally) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	clients(func(node int, group, user string) {
		s.clients.Go(func() {
			<-time.After(time.Duration(float64(s.service) / 2 * rand01()))
			s.send(ctx, s.urls[node], group, user)
		})
	})
	<-time.After(warm)
	s.begin()
	if y != nil {
		y.begin()
	}
	<-time.After(span)
	t.Cleanup(func() {
		stop()
		s.clients.Wait()
	})
	s.failed.Range(func(why, _ any) bool {
		t.Errorf("a request failed: %v", why)
		return true
	})
	assert.ErrorIf(t, s.above > 0, "%d requests started beyond the limit", s.above)
}

// compared is a row of a table: what the simulation has, and what was measured.
type compared struct {
	what      string
	simulated float64
	measured  float64
}

// check logs rows, and checks that the measured values are within a fifth of the simulated ones.
func check(t *testing.T, rows []compared) {
	t.Helper()
	var text strings.Builder
	for _, r := range rows {
		ratio := r.measured / r.simulated
		fmt.Fprintf(&text, "| %s | %.2f | %.2f | %.2f |\n", r.what, r.simulated, r.measured, ratio)
		assert.ErrorIf(t, ratio < 0.8 || ratio > 1.2, "%s: %.2f, in the simulation %.2f", r.what, r.measured, r.simulated)
	}
	t.Logf("\n| | simulated | measured | ratio |\n|---|--:|--:|--:|\n%s", text.String())
}
