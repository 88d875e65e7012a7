package caddytest

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

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

const (
	// stormClients ask at once, each for the next thing once it has an answer.
	stormClients = 8

	// stormPace is the least time from one request of a client to its next. Without it the load
	// would take all of a small machine, and answers would be slow for no fault of Redis's.
	stormPace = 2 * time.Millisecond

	// bigKeys are the keys that are far from their limit: none of their requests may be denied.
	bigKeys = 64

	// smallLimit is a limit of the hot key that is spent within half a second, so that whatever is
	// admitted after that tells of a share that was forgotten or is kept elsewhere.
	smallLimit = 200

	// largeLimit is one that is never reached, to compare what was admitted with what was counted.
	largeLimit = 50_000
)

// setting is what the nodes of a storm are configured with.
type setting struct {
	redis    string // lines of the global option: how to reach Redis
	failMode string // empty: local
	hot      string // lines of the hot key's policy but its limit; empty: a token bucket over 24h
	limit    int    // of the hot key; 0: smallLimit
	nodes    int    // 0: one
	reloads  bool   // the nodes are reloaded meanwhile
}

// storm is load on Caddy while something breaks. Every eighth request is for the hot key, whose
// admissions are counted, all others for keys that must always be admitted.
type storm struct {
	setting
	running []*node
	phase   time.Duration
	early   int // admissions of the hot key that Redis did not decide before it was spent: a stall
	over    chan struct{}
	stalled func() time.Duration
	clients sync.WaitGroup
	stop    sync.Once

	mu sync.Mutex
	tally
}

// caddyfile is the configuration of every node; the round makes those of reloads differ.
func (s *setting) caddyfile(round int) string {
	hot := s.hot
	if hot == "" {
		hot = "window 24h\nalgorithm token_bucket" // which earns one unit in seven minutes
	}
	site := "redis_ratelimit /big {query.k} 1000000 24h {\nname big\n}\n" +
		"redis_ratelimit /hot {\nname hot\nkey hot\nlimit " + strconv.Itoa(s.limit) + "\n" + hot + "\n}\n" +
		"header X-Round " + strconv.Itoa(round) + "\n"
	return quietly(config("redis_ratelimit {\n"+s.redis+"\nfail_mode "+s.failMode+"\n}", site+tell))
}

// newStorm starts the nodes and waits until Redis decides there.
func newStorm(t *testing.T, with setting) *storm {
	t.Helper()
	if with.limit == 0 {
		with.limit = smallLimit
	}
	if with.failMode == "" {
		with.failMode = "local"
	}
	s := &storm{setting: with, over: make(chan struct{}), phase: stormPhase()}
	for range max(1, with.nodes) {
		s.running = append(s.running, start(t, s.caddyfile(0)))
	}
	s.awaitRedis(t)
	return s
}

// blow asks for a while as things are, then while a fault happens and is over, until Redis decides
// again, and for another while.
func (s *storm) blow(t *testing.T, fault func()) {
	t.Helper()
	s.begin(t)
	s.hold()
	fault()
	s.awaitRedis(t)
	s.hold()
	s.end()
}

// begin starts the load, and waits until the hot key's share is spent where its limit is small.
func (s *storm) begin(t *testing.T) {
	t.Helper()
	t.Cleanup(s.end)
	s.stalled = redistest.WatchStalls(t)
	for i := range stormClients {
		s.clients.Go(func() { s.ask(i) })
	}
	if s.limit != smallLimit {
		return
	}
	redistest.WaitFor(t, "the hot key's share is spent", func() error {
		if now := s.now(); now.hotDenied == 0 {
			return fmt.Errorf("%d of its requests were admitted", now.hotRedis+now.hotLocal)
		}
		return nil
	})
	s.early = s.now().hotLocal
}

// end stops the load. Ending it twice is fine.
func (s *storm) end() {
	s.stop.Do(func() { close(s.over) })
	s.clients.Wait()
}

// hold lets the load go on for a third of its time: the faults of this suite have no other end.
func (s *storm) hold() { <-time.After(s.phase) }

// repeat does something again and again for a third of the load's time.
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

// ask is one client, until the storm is over.
func (s *storm) ask(client int) {
	pace := time.NewTicker(stormPace)
	defer pace.Stop()
	n := s.running[client%len(s.running)]
	for turn, big := 0, client; ; turn++ {
		if turn%8 == 0 {
			s.request(n, "/hot", -1)
		} else {
			s.request(n, bigPath(big), big)
			big = (big + stormClients) % bigKeys
		}
		select {
		case <-pace.C:
		case <-s.over:
			return
		}
	}
}

// request sends one and counts what came of it.
func (s *storm) request(n *node, path string, big int) {
	a, err := n.try(http.MethodGet, n.URL+path, "")
	// A reload closes a socket, and resets the connections that nobody has accepted there yet. That
	// is Caddy's way, and nobody has read the request.
	for s.reloads && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)) {
		a, err = n.try(http.MethodGet, n.URL+path, "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.add(s.failMode, big, a, err); s.wrong > 0 && s.complaint == "" {
		s.complaint = fmt.Sprintf("%s: %v, error %v", path, a, err)
	}
}

// now is what was counted so far.
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
			waitForRedis(t, n, bigPath(big))
		}
	}
}

// consumed is how much of the hot key's share is taken on Redis, after the storm.
func (s *storm) consumed(t *testing.T) int {
	t.Helper()
	a := s.running[0].get(t, "/hot")
	remaining, err := strconv.Atoi(a.header.Get("X-Ratelimit-Remaining"))
	if err != nil || a.body != "allowed redis" {
		t.Fatalf("got %v; want to hear from Redis what remains", a)
	}
	return s.limit - remaining - 1
}

func bigPath(big int) string { return "/big?k=k" + strconv.Itoa(big) }
