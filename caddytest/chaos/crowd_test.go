package chaos

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

const (
	// crowdTimeout is the node timeout of the policies, the shortest that there is.
	crowdTimeout = 5 * time.Second

	// keptTimeout is the node timeout of faults after which Redis must know what runs as before. A node states that every third
	// of it, and is asked a second after a fault: of crowdTimeout a fault of a third leaves 0.4 s, which a busy machine may take.
	// On one that was three times as slow, 20 s were not enough.
	keptTimeout = 12 * crowdTimeout

	// lostTimeout is the node timeout of faults that outlast it. With crowdTimeout a busy machine loses the node again afterwards.
	lostTimeout = 2 * crowdTimeout

	// crowdRun is how long the backend runs a request: much longer than Caddy takes for it on a busy machine,
	// so that the limit is reached at the backend.
	crowdRun = 200 * time.Millisecond

	// crowdPause is how long a client waits after a refusal. 400 clients send some 1,500 requests a second.
	crowdPause = 250 * time.Millisecond

	// crowdRefused is how many clients come again for each one that waits: as many that places are taken soon, too.
	crowdRefused = 4

	// crowdLook is the time in which as many requests as allowed must run at once, and not more.
	crowdLook = 500 * time.Millisecond

	// crowdFree is how long a place may be free beside a waiting request on a machine of its own: until the claim of a node
	// has ended that asks no more, and the longest pause between two asks of another.
	crowdFree = 1250*time.Millisecond + caddytest.Slack
)

// crowd is more clients than may run at once, on two nodes with fail_mode closed, and a backend that counts what runs. Half of
// the clients are refused beyond the limit, and half wait, by policies that have the same faults.
type crowd struct {
	limit     int           // of each side
	redis     string        // lines of the global option; empty: addresses
	addresses [2]string     // of Redis, for each node
	clientsOf [2]int        // of each node, that wait; of those that are refused there are [crowdRefused] times as many
	pause     time.Duration // of a client after a refusal
	timeout   time.Duration // the node timeout
	forgets   bool          // the fault makes Redis forget what runs
	loses     bool          // because it has lost contact with a node that runs on

	nodes   []*caddytest.Node
	backend string
	over    chan struct{}
	clients sync.WaitGroup
	stop    sync.Once
	refused *side
	waiting *side
	healed  time.Duration // the longest time from the end of a fault until both limits hold and are reached
}

const crowdHeader = "fault | requests sent | let through | " + sideHeader + " | with wait: let through | " + sideHeader + " | longest free place | healed after"

// String returns the columns of the table but the last.
func (c *crowd) String() string {
	return fmt.Sprintf("%d | %d | %v | %d | %v | %d ms | %.1f s", c.refused.sent+c.waiting.sent, c.refused.passed, c.refused,
		c.waiting.passed, c.waiting, c.waiting.longestFree.Milliseconds(), c.healed.Seconds())
}

// newCrowd starts the backend. The nodes begin with the load.
func newCrowd(t *testing.T, limit int, address string) *crowd {
	t.Helper()
	c := &crowd{limit: limit, addresses: [2]string{address, address}, clientsOf: [2]int{24, 24}, pause: crowdPause,
		timeout: crowdTimeout, over: make(chan struct{})}
	c.refused, c.waiting = newSide(c, "refused", false), newSide(c, "waiting", true)
	c.backend = caddytest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		for _, s := range c.sides() {
			if r.URL.Path == "/"+s.name {
				s.serve(w, r)
			}
		}
	})
	t.Cleanup(c.end)
	return c
}

func (c *crowd) sides() [2]*side { return [2]*side{c.refused, c.waiting} }

// begin starts the nodes, requests of each side that run until the end, and the clients. It waits until the limits are reached.
func (c *crowd) begin(t *testing.T, held ...int) {
	t.Helper()
	for i := range c.addresses {
		c.nodes = append(c.nodes, caddytest.Start(t, c.caddyfile(i)))
	}
	for _, s := range c.sides() {
		for i, n := range c.nodes {
			n.Client.Timeout = 0
			for range held[i] {
				c.clients.Go(func() { s.holdOne(n) })
			}
		}
		want := held[0] + held[1]
		assert.Retry(t, "the held requests run", func() (again bool, seen any) {
			now := s.holds()
			return now != want, fmt.Sprintf("%d of %d do", now, want)
		})
		for i, n := range c.nodes {
			for range s.clients(c.clientsOf[i]) {
				c.clients.Go(func() { s.ask(n) })
			}
		}
	}
	forgets := c.forgets
	c.forgets = false
	c.checkHealed(t, time.Now())
	c.healed, c.forgets = 0, forgets
}

// caddyfile returns the configuration of a node.
func (c *crowd) caddyfile(node int) string {
	redis := c.redis
	if redis == "" {
		redis = "redis redis://" + c.addresses[node]
	}
	var site strings.Builder
	for _, s := range c.sides() {
		site.WriteString("redis_ratelimit /" + s.name + " {\npolicy " + s.name + " {\nkey everyone\nmax_concurrent " + strconv.Itoa(c.limit) +
			"\nnode_timeout " + c.timeout.String() + "\n" + s.options() + "}\n}\n")
	}
	site.WriteString("reverse_proxy " + c.backend)
	return caddytest.Quietly(caddytest.Config("redis_ratelimit {\n"+redis+"\nfail_mode closed\ntimeout 1s\n}", site.String()))
}

// keepUnless has Redis count what runs for long after it has lost contact, unless it is to forget that.
func (c *crowd) keepUnless(forgets bool) {
	if !forgets {
		c.timeout = keptTimeout
	}
}

// outlast has Redis count what runs for as long as it is told to, of a node that it loses if that is to be forgotten.
func (c *crowd) outlast(forgets bool) {
	if c.keepUnless(forgets); forgets {
		c.timeout = lostTimeout
	}
}

// hold lets time pass as a storm does.
func (*crowd) hold() { <-time.After(stormPhase()) }

// look has both sides forget the most that ran at once.
func (c *crowd) look() {
	for _, s := range c.sides() {
		s.look()
	}
}

// checkHealed waits until as many requests as allowed run at once and not more, since an instant, and checks
// that this stays so. If the test has the machine for itself, it may take as long as Redis counts the requests of a
// node that it has lost contact with, and a third for what the nodes state. More than allowed may run only where Redis has
// forgotten some, and then at most twice as many.
func (c *crowd) checkHealed(t *testing.T, since time.Time) {
	t.Helper()
	bound := c.limit
	c.look()
	if c.forgets {
		bound = 2 * c.limit
		c.awaitStated(t)
	}
	for _, s := range c.sides() {
		c.healed = max(c.healed, s.awaitFull(t, since, bound))
	}
	assert.ErrorIf(t, isLong() && c.healed > c.timeout*4/3+3*crowdLook,
		"it took %v until as many requests as allowed ran again, want at most %v", c.healed, c.timeout*4/3)
	c.look()
	for _, s := range c.sides() {
		s.checkStaysFull(t)
	}
	assert.ErrorIf(t, isLong() && c.waiting.longestFree > crowdFree,
		"a place was free for %v beside a waiting request, want at most %v", c.waiting.longestFree, crowdFree)
}

// awaitStated waits until Redis knows what the nodes run. A node learns by an answer of Redis, even a denial, that Redis has
// forgotten all that the node runs. Of what Redis has forgotten in part, such as the last message before a replica took over, it
// gets to know by the node's next state, a third of the node timeout later at most. That a request passes need not be waited for:
// the clients of the other node may keep all places among themselves for long.
func (c *crowd) awaitStated(t *testing.T) {
	t.Helper()
	for _, n := range c.nodes {
		for _, s := range c.sides() {
			assert.Retry(t, "Redis decides for the node", func() (again bool, seen any) {
				a, err := s.try(n, "")
				return err != nil || a.Status != http.StatusOK && a.Status != http.StatusTooManyRequests, a
			})
		}
	}
	<-time.After(c.timeout/3 + crowdLook)
	c.look()
}

// checkAbove checks that more than the limit ran for no longer where requests wait, if the test has the machine for itself. A node
// whose places go on from one request to the next tells Redis a third of its timeout ago at most, and one that refuses just now:
// a node that is lost counts for so much less long.
func (c *crowd) checkAbove(t *testing.T) {
	t.Helper()
	bound := c.refused.above + crowdRun*3/4
	if c.loses {
		bound += c.timeout / 3
	}
	assert.ErrorIf(t, isLong() && c.waiting.above > bound, "more than the limit ran for %v where requests wait, for %v where they are refused",
		c.waiting.above, c.refused.above)
}

// end stops the load.
func (c *crowd) end() {
	c.stop.Do(func() {
		close(c.over)
		c.clients.Wait()
		c.look()
	})
}
