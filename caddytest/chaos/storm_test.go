package chaos

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

const (
	// stormClients send requests at once, each the next one after a response.
	stormClients = 8

	// bigKeys is the number of keys far below their limit. None of their requests may be denied.
	bigKeys = 64

	// largeLimit is never reached. It serves to compare admissions with counts.
	largeLimit = 50_000
)

// smallLimit is a limit of the hot key that is used up within a second. Later admissions show a state that was
// lost or is stored elsewhere.
var smallLimit = lasting(200, 16)

// load is clients that take turns at a pace until it ends.
type load struct {
	over    chan struct{}
	clients sync.WaitGroup
	stop    sync.Once
}

// start starts the clients, each with a function for its turns.
func (l *load) start(t *testing.T, clients int, pace time.Duration, client func(i int) (turn func())) {
	t.Helper()
	l.over = make(chan struct{})
	t.Cleanup(l.end)
	for i := range clients {
		turn := client(i)
		l.clients.Go(func() {
			ticker := time.NewTicker(pace)
			defer ticker.Stop()
			for {
				turn()
				select {
				case <-ticker.C:
				case <-l.over:
					return
				}
			}
		})
	}
}

// end stops the load. It may be called twice.
func (l *load) end() {
	l.stop.Do(func() { close(l.over) })
	l.clients.Wait()
}

// setting is the configuration of the nodes of a storm.
type setting struct {
	redis    string // lines of the global option: how to reach Redis
	failMode string // empty: local
	hot      string // lines of the hot key's policy but its limit; empty: a token bucket over 24h
	limit    int    // of the hot key; 0: smallLimit
	nodes    int    // 0: one
	reloads  bool   // the nodes are reloaded meanwhile
}

// storm is a load on Caddy during a fault. Every eighth request has the hot key, whose admissions are
// counted. All others have keys that must always be admitted.
type storm struct {
	setting
	running []*caddytest.Node
	phase   time.Duration
	early   int // admissions of the hot key without Redis before its quota was used: a stall
	stalled func() time.Duration
	load

	mu sync.Mutex
	tally
}

// caddyfile returns the configuration of every node. The round makes reloads differ.
func (s *setting) caddyfile(round int) string {
	hot := s.hot
	if hot == "" {
		hot = "window 24h\nalgorithm token_bucket" // which refills one unit in seven minutes
	}
	site := "redis_ratelimit /big {query.k} 1000000 24h {\nname big\n}\n" +
		"redis_ratelimit /hot {\nname hot\nkey hot\nlimit " + strconv.Itoa(s.limit) + "\n" + hot + "\n}\n" +
		"header X-Round " + strconv.Itoa(round) + "\n"
	return caddytest.Quietly(caddytest.Config("redis_ratelimit {\n"+s.redis+"\nfail_mode "+s.failMode+"\n}", site+caddytest.ShowDecision))
}

// newStorm starts the nodes and waits until Redis decides.
func newStorm(t *testing.T, with setting) *storm {
	t.Helper()
	if with.limit == 0 {
		with.limit = smallLimit
	}
	if with.failMode == "" {
		with.failMode = "local"
	}
	s := &storm{setting: with, phase: stormPhase()}
	for range max(1, with.nodes) {
		s.running = append(s.running, caddytest.Start(t, s.caddyfile(0)))
	}
	s.awaitRedis(t)
	return s
}

// blow sends the load for a while without a fault, during the fault, until Redis decides again, and for another while.
func (s *storm) blow(t *testing.T, fault func()) {
	t.Helper()
	s.begin(t)
	s.hold()
	fault()
	s.awaitRedis(t)
	s.hold()
	s.end()
}

// begin starts the load. Where the hot key's limit is small it waits until the quota is used.
func (s *storm) begin(t *testing.T) {
	t.Helper()
	s.stalled = watchStalls(t)
	s.start(t, stormClients, requestPace(), s.client)
	if s.limit != smallLimit {
		return
	}
	assert.Retry(t, "the hot key's quota is used", func() (again bool, seen any) {
		now := s.now()
		return now.hotDenied == 0, fmt.Sprintf("%d of its requests were admitted", now.hotRedis+now.hotLocal)
	})
	s.early = s.now().hotLocal
}

// hold waits for a third of the load's time.
func (s *storm) hold() { <-time.After(s.phase) }

// repeat calls a function at an interval for a third of the load's time.
func (s *storm) repeat(every time.Duration, do func()) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	end := time.After(s.phase)
	for {
		do()
		select {
		case <-ticker.C:
		case <-end:
			return
		}
	}
}

// client returns what a client does in its turns.
func (s *storm) client(client int) (turn func()) {
	n, turns, big := s.running[client%len(s.running)], 0, client
	return func() {
		if turns++; turns%8 == 1 {
			s.request(n, "/hot", -1)
			return
		}
		s.request(n, bigPath(big), big)
		big = (big + stormClients) % bigKeys
	}
}

// request sends one request and counts the result.
func (s *storm) request(n *caddytest.Node, path string, big int) {
	a, err := n.Try(http.MethodGet, n.URL+path, "")
	// A reload closes a socket and resets the connections in its queue, as always in Caddy. Their
	// requests were not read.
	for s.reloads && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)) {
		a, err = n.Try(http.MethodGet, n.URL+path, "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.add(s.failMode, big, a, err); s.wrong > 0 && s.complaint == "" {
		s.complaint = fmt.Sprintf("%s: %v, error %v", path, a, err)
	}
}

// now returns the counts so far.
func (s *storm) now() tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tally
}

// awaitRedis waits until Redis decides for all keys on all nodes.
func (s *storm) awaitRedis(t *testing.T) {
	t.Helper()
	for _, n := range s.running {
		for big := range bigKeys {
			caddytest.WaitForRedis(t, n, bigPath(big))
		}
	}
}

// consumed returns the used quota of the hot key on Redis, after the storm.
func (s *storm) consumed(t *testing.T) int {
	t.Helper()
	return s.limit - int(s.running[0].Remaining(t, "hot", "hot")) // a request might be decided elsewhere on a busy machine
}

func bigPath(big int) string { return "/big?k=k" + strconv.Itoa(big) }
