package caddytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// toxiproxy stands in front of a new Redis, which may be asked directly too.
func toxiproxy(t *testing.T) (*redistest.Toxiproxy, *redistest.Server) {
	t.Helper()
	path, err := builtToxiproxy()
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t)
	return redistest.StartToxiproxy(t, path, server.Addr), server
}

// builtToxiproxy is the one that make has built, or is built once.
var builtToxiproxy = sync.OnceValues(func() (string, error) {
	made := filepath.Join("..", ".build", "toxiproxy-server")
	if _, err := os.Stat(made); err == nil {
		return filepath.Abs(made)
	}
	path := filepath.Join(buildDir, "toxiproxy-server")
	build := exec.Command("go", "build", "-o", path, "github.com/Shopify/toxiproxy/v2/cmd/server")
	build.Dir = filepath.Join("..", "tools")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building toxiproxy: %w\n%s", err, output)
	}
	return path, nil
})

// latency holds replies for that many milliseconds.
func latency(milliseconds int) redistest.Toxic {
	return redistest.Toxic{Type: "latency", Stream: "downstream", Attributes: map[string]int{"latency": milliseconds}}
}

// nearby moves Redis away, but not so far that it could not decide.
func nearby(milliseconds int) func(*testing.T, *row) {
	return func(t *testing.T, r *row) {
		proxy, _ := toxiproxy(t)
		s := newStorm(t, plainly(proxy.Addr))
		s.blow(t, func() {
			proxy.Poison(t, latency(milliseconds))
			s.hold()
			proxy.Cure(t)
		})
		r.keep(t, s, promise{outage: true})
		if r.elsewhere > r.sent/20 {
			t.Errorf("Redis did not decide %d of %d requests; want fewer than one in twenty", r.elsewhere, r.sent)
		}
	}
}

// tooFar moves Redis so far away that no answer comes in time.
func tooFar(t *testing.T, r *row) {
	poisoned(t, r, latency(500), func(s *storm, _ *redistest.Server) {
		s.hold()
		if s.now().elsewhere == 0 {
			t.Error("no request was decided elsewhere")
		}
	})
}

// poisoned has the network do something to all connections for a while.
func poisoned(t *testing.T, r *row, toxic redistest.Toxic, meanwhile func(s *storm, server *redistest.Server)) {
	t.Helper()
	proxy, server := toxiproxy(t)
	s := newStorm(t, plainly(proxy.Addr))
	s.blow(t, func() {
		proxy.Poison(t, toxic)
		meanwhile(s, server)
		proxy.Cure(t)
	})
	r.keep(t, s, promise{outage: true})
}

func resets(t *testing.T, r *row) {
	toxic := redistest.Toxic{Type: "reset_peer", Stream: "downstream", Attributes: map[string]int{"timeout": 0}}
	poisoned(t, r, toxic, func(s *storm, _ *redistest.Server) { s.hold() })
}

// slowClose has Redis close connections, and the network keep that from the client: what it sends
// there is never answered.
func slowClose(t *testing.T, r *row) {
	toxic := redistest.Toxic{Type: "slow_close", Stream: "downstream", Attributes: map[string]int{"delay": 1000}}
	poisoned(t, r, toxic, func(s *storm, server *redistest.Server) {
		s.repeat(200*time.Millisecond, func() { do(t, server, "client", "kill", "type", "normal") })
	})
}

// exactly is a setting in which the hot key's admissions can be compared with what Redis has
// counted: its share neither ends nor refills.
func exactly(address string) setting {
	with := plainly(address)
	with.limit, with.hot = largeLimit, "window 24h\nalgorithm sliding_window_log"
	return with
}

// repliesCut ends every connection in the midst of a reply, after that many bytes. Most replies come
// through between, so that the breaker stays closed and every request is sent to Redis.
func repliesCut(t *testing.T, r *row) {
	proxy, _ := toxiproxy(t)
	s := newStorm(t, exactly(proxy.Addr))
	s.blow(t, func() {
		proxy.Poison(t, redistest.Toxic{Type: "limit_data", Stream: "downstream", Attributes: map[string]int{"bytes": 10_010}})
		s.hold()
		proxy.Cure(t)
	})
	r.keep(t, s, promise{outage: true})
	s.countsOnce(t)
}

// repliesDropped has requests arrive and no reply come back, for a moment at a time.
func repliesDropped(t *testing.T, r *row) {
	proxy, _ := toxiproxy(t)
	s := newStorm(t, exactly(proxy.Addr))
	s.blow(t, func() {
		s.repeat(time.Second/10, func() {
			lost := s.now().elsewhere
			proxy.Poison(t, redistest.Toxic{Type: "timeout", Stream: "downstream", Attributes: map[string]int{"timeout": 1000}})
			redistest.WaitFor(t, "replies are missed", func() error {
				if s.now().elsewhere < lost+stormClients {
					return fmt.Errorf("%d requests were decided elsewhere before, now %d", lost, s.now().elsewhere)
				}
				return nil
			})
			proxy.Cure(t)
			s.awaitRedis(t)
		})
	})
	r.keep(t, s, promise{outage: true})
	s.countsOnce(t)
}

// countsOnce checks that Redis has counted what it admitted, and at most once each request of the
// hot key whose decision did not come back.
func (s *storm) countsOnce(t *testing.T) {
	t.Helper()
	now, consumed := s.now(), s.consumed(t)
	t.Logf("of the hot key Redis admitted %d and has counted %d; %d more were sent", now.hotRedis, consumed, now.hotLost)
	if consumed < now.hotRedis || consumed > now.hotRedis+now.hotLost {
		t.Errorf("of the hot key Redis admitted %d and has counted %d; %d more were sent", now.hotRedis, consumed, now.hotLost)
	}
}
