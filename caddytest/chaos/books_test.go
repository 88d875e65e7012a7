package chaos

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

const (
	// settledKeys is the number of keys of each policy, which all clients use.
	settledKeys = 4

	// settledLimit is never used up. A bucket of it drains a unit a second.
	settledLimit = 86_400
)

// settledPolicies are the algorithms of the policies whose counts are compared.
var settledPolicies = map[string]string{
	"window": "fixed_window", "counter": "sliding_window_counter", "log": "sliding_window_log", "bucket": "token_bucket",
}

// quota is a policy and a key.
type quota struct{ policy, key string }

// admissions are what passed, by the source of the decision.
type admissions struct{ redis, local int }

// books are what the clients of an outage were admitted, beside what Redis has counted.
type books struct {
	*outage
	running []*caddytest.Node
	server  *redistest.Server
	redis   string // lines of the global option
	began   time.Time
	isOut   atomic.Bool // the hot quota is used in outages alone
	load
	stalled func() time.Duration

	mu       sync.Mutex
	sent     int
	slowest  time.Duration
	wrong    string // the first response that is none of those expected
	admitted map[quota]*admissions

	unknown, lost             int // requests and settlements without a reply
	counted, onRedis, onNodes int // of the windows and logs, whose sums are exact
	hotAdmitted, hotCounted   int
}

const settlementHeader = "outage | requests sent | admitted by Redis | admitted by the nodes | of unknown outcome | counted afterwards | hot key admitted / counted | slowest response"

func (b *books) String() string {
	return fmt.Sprintf("%d | %d | %d | %d | %d | %d / %d | %.1f ms", b.sent, b.onRedis, b.onNodes, b.unknown, b.counted,
		b.hotAdmitted, b.hotCounted, b.slowest.Seconds()*1000)
}

func keyName(key int) string { return "k" + strconv.Itoa(key) }

// begin starts the load.
func (b *books) begin(t *testing.T) {
	t.Helper()
	b.began, b.stalled = time.Now(), watchStalls(t)
	var quotas []quota
	for policy := range settledPolicies {
		for key := range settledKeys {
			quotas = append(quotas, quota{policy, keyName(key)})
		}
	}
	b.start(t, stormClients, requestPace(), func(client int) func() {
		n, turn := b.running[client%len(b.running)], client-1
		return func() {
			if turn++; turn%8 == 0 && b.isOut.Load() {
				b.request(n, quota{"hot", "hot"})
			}
			b.request(n, quotas[turn%len(quotas)])
		}
	})
}

// request sends one request and notes what came of it.
func (b *books) request(n *caddytest.Node, q quota) {
	a, err := n.Try(http.MethodGet, n.URL+"/"+q.policy+"?k="+q.key, "")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent++
	b.slowest = max(b.slowest, a.Took)
	admitted := b.admitted[q]
	if admitted == nil {
		admitted = &admissions{}
		b.admitted[q] = admitted
	}
	switch {
	case err == nil && a.Body == "allowed redis":
		admitted.redis++
	case err == nil && (a.Body == "allowed fallback" || a.Body == "failed_open redis"):
		admitted.local++
	case err == nil && q.policy == "hot" && strings.HasPrefix(a.Body, "denied "):
	case b.wrong == "":
		b.wrong = fmt.Sprintf("%v: %v, error %v", q, a, err)
	}
}
