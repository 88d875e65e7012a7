package chaos

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// toxiproxy starts a proxy before a new Redis. It returns the Redis too, for direct connections.
func toxiproxy(t *testing.T) (*redistest.Toxiproxy, *redistest.Server) {
	t.Helper()
	path, err := builtToxiproxy()
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t)
	return redistest.StartToxiproxy(t, path, server.Addr), server
}

// builtToxiproxy returns the path of the binary of make, built where it is missing or old.
var builtToxiproxy = sync.OnceValues(func() (string, error) {
	return caddytest.Build("toxiproxy-server", "tools", "github.com/Shopify/toxiproxy/v2/cmd/server")
})

// latency delays replies by that many milliseconds.
func latency(milliseconds int) redistest.Toxic {
	return redistest.Toxic{Type: "latency", Stream: "downstream", Attributes: map[string]int{"latency": milliseconds}}
}

// nearby adds a latency below the timeout.
func nearby(milliseconds int) func(*testing.T, *row) {
	return func(t *testing.T, r *row) {
		proxy, _ := toxiproxy(t)
		s := newStorm(t, plainly(proxy.Addr))
		s.blow(t, func() {
			proxy.Poison(t, latency(milliseconds))
			s.hold()
			proxy.Cure(t)
		})
		r.check(t, s, properties{outage: true})
		if isLong() && r.elsewhere > r.sent/20 { // a new connection takes another round trip
			t.Errorf("Redis did not decide %d of %d requests; want fewer than one in 20", r.elsewhere, r.sent)
		}
	}
}

// tooFar adds a latency above the timeout.
func tooFar(t *testing.T, r *row) {
	poisoned(t, r, latency(500), func(s *storm, _ *redistest.Server) {
		s.hold()
		if s.now().elsewhere == 0 {
			t.Error("no request was decided elsewhere")
		}
	})
}

// poisoned applies a toxic to all connections for a while.
func poisoned(t *testing.T, r *row, toxic redistest.Toxic, meanwhile func(s *storm, server *redistest.Server)) {
	t.Helper()
	proxy, server := toxiproxy(t)
	s := newStorm(t, plainly(proxy.Addr))
	s.blow(t, func() {
		proxy.Poison(t, toxic)
		meanwhile(s, server)
		proxy.Cure(t)
	})
	r.check(t, s, properties{outage: true})
}

func resets(t *testing.T, r *row) {
	toxic := redistest.Toxic{Type: "reset_peer", Stream: "downstream", Attributes: map[string]int{"timeout": 0}}
	poisoned(t, r, toxic, func(s *storm, _ *redistest.Server) { s.hold() })
}

// slowClose closes connections on the side of Redis. The client sees that late: its commands in between
// get no reply.
func slowClose(t *testing.T, r *row) {
	toxic := redistest.Toxic{Type: "slow_close", Stream: "downstream", Attributes: map[string]int{"delay": 1000}}
	poisoned(t, r, toxic, func(s *storm, server *redistest.Server) {
		s.repeat(200*time.Millisecond, func() { do(t, server, "client", "kill", "type", "normal") })
	})
}

// exactly returns a setting in which the hot key's admissions equal the count of Redis: its quota neither
// ends nor refills.
func exactly(address string) setting {
	with := plainly(address)
	with.limit, with.hot = largeLimit, "window 24h\nalgorithm sliding_window_log"
	return with
}

// repliesCut ends every connection within a reply, after a number of bytes. Most replies arrive, so that
// the breaker stays closed and every request is sent to Redis.
func repliesCut(t *testing.T, r *row) {
	proxy, _ := toxiproxy(t)
	s := newStorm(t, exactly(proxy.Addr))
	s.blow(t, func() {
		proxy.Poison(t, redistest.Toxic{Type: "limit_data", Stream: "downstream", Attributes: map[string]int{"bytes": lasting(10_010, 1_010)}})
		s.hold()
		proxy.Cure(t)
	})
	r.check(t, s, properties{outage: true})
	s.countsOnce(t)
}

// repliesDropped drops all replies for a moment, again and again. Commands arrive.
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
	r.check(t, s, properties{outage: true})
	s.countsOnce(t)
}

// countsOnce checks that Redis has counted its admissions of the hot key, and each request without a
// reply at most once.
func (s *storm) countsOnce(t *testing.T) {
	t.Helper()
	now, consumed := s.now(), s.consumed(t)
	t.Logf("of the hot key Redis admitted %d and has counted %d; %d more were sent", now.hotRedis, consumed, now.hotLost)
	if consumed < now.hotRedis || consumed > now.hotRedis+now.hotLost {
		t.Errorf("of the hot key Redis admitted %d and has counted %d; %d more were sent", now.hotRedis, consumed, now.hotLost)
	}
}
