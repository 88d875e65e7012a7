package chaos

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

const (
	// crowdTimeout is the node timeout of the policy, the shortest that there is.
	crowdTimeout = 5 * time.Second

	// crowdRun is how long the backend runs a request: much longer than Caddy takes for it on a busy machine,
	// so that the limit is reached at the backend.
	crowdRun = 200 * time.Millisecond

	// crowdPause is how long a client waits after a refusal. 400 clients send some 1,500 requests a second.
	crowdPause = 250 * time.Millisecond

	// crowdLook is the time in which as many requests as allowed must run at once, and not more.
	crowdLook = 500 * time.Millisecond
)

// crowd is more clients than may run at once, on two nodes with fail_mode closed, and a backend that counts what runs.
type crowd struct {
	limit     int
	redis     string        // lines of the global option; empty: addresses
	addresses [2]string     // of Redis, for each node
	clientsOf [2]int        // of each node
	pause     time.Duration // of a client after a refusal
	forgets   bool          // the fault makes Redis forget what runs

	nodes   []*caddytest.Node
	backend string
	over    chan struct{}
	clients sync.WaitGroup
	stop    sync.Once
	held    atomic.Int64 // requests that run until the end

	mu            sync.Mutex
	running, most int           // at the backend; most: since the last look
	reached       chan struct{} // closed as soon as as many run as may

	sent, passed atomic.Int64
	worst        int           // that ran at once at any time
	healed       time.Duration // the longest time from the end of a fault until the limit holds and is reached
}

const crowdHeader = "fault | requests sent | let through | most at once / limit | healed after"

// String returns the columns of the table but the last.
func (c *crowd) String() string {
	return fmt.Sprintf("%d | %d | %d / %d | %.1f s", c.sent.Load(), c.passed.Load(), c.worst, c.limit, c.healed.Seconds())
}

// newCrowd starts the backend. The nodes begin with the load.
func newCrowd(t *testing.T, limit int, address string) *crowd {
	t.Helper()
	c := &crowd{limit: limit, addresses: [2]string{address, address}, clientsOf: [2]int{16, 16}, pause: crowdPause, over: make(chan struct{}), reached: make(chan struct{})}
	c.backend = caddytest.Serve(t, c.serve)
	t.Cleanup(c.end)
	return c
}

// serve runs a request at the backend.
func (c *crowd) serve(w http.ResponseWriter, r *http.Request) {
	c.count(1)
	defer c.count(-1)
	if r.URL.Path == "/held" {
		c.held.Add(1)
		defer c.held.Add(-1)
		select {
		case <-c.over:
		case <-r.Context().Done():
		}
		return
	}
	<-time.After(crowdRun)
	c.awaitOthers(r)
	_, _ = io.WriteString(w, "ran")
}

// awaitOthers keeps a request until as many run as may, where a busy machine needs longer than [crowdRun] to bring them
// to the backend.
func (c *crowd) awaitOthers(r *http.Request) {
	c.mu.Lock()
	reached := c.reached
	full := c.running >= c.limit
	c.mu.Unlock()
	if isLong() || full {
		return
	}
	select {
	case <-reached:
	case <-c.over:
	case <-r.Context().Done():
	}
}

func (c *crowd) count(change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running += change
	c.most = max(c.most, c.running)
	if change > 0 && c.running >= c.limit {
		close(c.reached)
		c.reached = make(chan struct{})
	}
}

// look returns the most requests that ran at once since the last look.
func (c *crowd) look() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := c.most
	c.most, c.worst = c.running, max(c.worst, most)
	return most
}

// begin starts the nodes, requests that run until the end, and the clients. It waits until the limit is reached.
func (c *crowd) begin(t *testing.T, held ...int) {
	t.Helper()
	for i := range c.addresses {
		redis := c.redis
		if redis == "" {
			redis = "redis redis://" + c.addresses[i]
		}
		global := "redis_ratelimit {\n" + redis + "\nfail_mode closed\ntimeout 1s\n}"
		site := "redis_ratelimit {\npolicy crowd {\nkey everyone\nmax_concurrent " + strconv.Itoa(c.limit) + "\nnode_timeout " + crowdTimeout.String() + "\n}\n}\nreverse_proxy " + c.backend
		c.nodes = append(c.nodes, caddytest.Start(t, caddytest.Quietly(caddytest.Config(global, site))))
	}
	for i, n := range c.nodes {
		n.Client.Timeout = 0
		for range held[i] {
			c.clients.Go(func() { c.holdOne(n) })
		}
	}
	want := int64(held[0] + held[1])
	assert.Retry(t, "the held requests run", func() (again bool, seen any) {
		now := c.held.Load()
		return now != want, fmt.Sprintf("%d of %d do", now, want)
	})
	for i, n := range c.nodes {
		for range c.clientsOf[i] {
			c.clients.Go(func() { c.ask(n) })
		}
	}
	c.checkHealed(t, time.Now())
	c.healed = 0
}

// holdOne has a request run until the end. A busy Redis may not have decided in time that it runs.
func (c *crowd) holdOne(n *caddytest.Node) {
	for {
		a, err := n.Try(http.MethodGet, n.URL+"/held", "")
		if err != nil || a.Status == http.StatusOK { // a killed node ends it
			return
		}
		select {
		case <-c.over:
			return
		case <-time.After(c.pause):
		}
	}
}

// ask sends requests, one after the other.
func (c *crowd) ask(n *caddytest.Node) {
	for {
		a, err := n.Try(http.MethodGet, n.URL+"/", "")
		c.sent.Add(1)
		pause := c.pause
		if err == nil && a.Status == http.StatusOK {
			c.passed.Add(1)
			pause = 0
		}
		select {
		case <-c.over:
			return
		case <-time.After(pause):
		}
	}
}

// hold lets time pass as a storm does.
func (*crowd) hold() { <-time.After(stormPhase()) }

// checkHealed waits until as many requests as allowed run at once and not more, since an instant, and checks
// that this stays so. If the test has the machine for itself, it may take as long as Redis counts the requests of a
// node that it has lost contact with, and a third for what the nodes state. More than allowed may run only where Redis has forgotten some,
// and then at most twice as many.
func (c *crowd) checkHealed(t *testing.T, since time.Time) {
	t.Helper()
	bound := c.limit
	if c.forgets {
		bound = 2 * c.limit
	}
	var most int
	c.look()
	if c.forgets {
		// A node learns by an answer of Redis, even a denial, that Redis has forgotten what the node runs, and tells Redis within
		// the time of the next look. That a request passes need not be waited for: the clients of the other node may keep
		// all places among themselves for long.
		for _, n := range c.nodes {
			assert.Retry(t, "Redis decides for the node", func() (again bool, seen any) {
				a, err := n.Try(http.MethodGet, n.URL+"/", "")
				return err != nil || a.Status != http.StatusOK && a.Status != http.StatusTooManyRequests, a
			})
		}
		<-time.After(crowdLook)
		c.look()
	}
	for {
		<-time.After(crowdLook)
		if most = c.look(); most > bound {
			t.Fatalf("%d requests ran at once, at most %d may", most, bound)
		}
		took := time.Since(since)
		if most == c.limit {
			c.healed = max(c.healed, took)
			break
		}
		assert.FatalIf(t, isLong() && took > crowdTimeout*4/3+10*crowdLook || took > time.Minute, "%d requests run at once after %v, want %d", most, took, c.limit)
	}
	assert.ErrorIf(t, isLong() && c.healed > crowdTimeout*4/3+2*crowdLook, "it took %v until as many requests as allowed ran again, want at most %v", c.healed, crowdTimeout*4/3)
	most = 0
	for looks := 1; looks <= lasting(4, 2) || most < c.limit && !isLong() && looks <= 120; looks++ {
		<-time.After(crowdLook)
		most = max(most, c.look())
	}
	assert.ErrorIf(t, most != c.limit, "%d requests run at once afterwards, want %d", most, c.limit)
}

// end stops the load.
func (c *crowd) end() {
	c.stop.Do(func() {
		close(c.over)
		c.clients.Wait()
		c.look()
	})
}
