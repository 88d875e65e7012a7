package chaos

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// outages are those whose admissions are compared with the counts of Redis afterwards.
var outages = []outage{
	{name: "1 node, Redis killed", nodes: 1, begin: kill},
	{name: "2 nodes, Redis paused", nodes: 2, begin: pause},
	{name: "8 nodes, Redis killed", nodes: 8, begin: kill},
	{name: "8 nodes, Redis paused", nodes: 8, begin: pause},
	{name: "2 nodes, Redis killed 5 times", nodes: 2, times: 5, begin: kill},
	{name: "2 nodes, Redis paused 5 times", nodes: 2, times: 5, begin: pause},
	{name: "2 nodes, a Cluster's master paused", nodes: 2, masters: 3, begin: pause},
	{name: "2 nodes, Redis killed, fail_mode open", nodes: 2, failMode: "open", forgiven: true, begin: kill},
	{name: "2 nodes, Redis killed, settle_outage off", nodes: 2, options: "settle_outage off", forgiven: true, begin: kill},
}

// outage is a setting of nodes, and how Redis fails.
type outage struct {
	name     string
	nodes    int
	times    int    // how often Redis fails; 0: once
	masters  int    // of a Cluster; 0: a single Redis
	failMode string // empty: local
	options  string // lines of the global option
	forgiven bool   // Redis is not told of what the nodes admitted
	begin    func(t *testing.T, server *redistest.Server) (end func())
}

// kill ends a Redis, which has its counts again when it runs again.
func kill(t *testing.T, server *redistest.Server) (end func()) {
	server.Kill()
	return func() { server.Run(t) }
}

func pause(t *testing.T, server *redistest.Server) (end func()) {
	server.Pause(t)
	return func() { server.Resume(t) }
}

// outageLength returns how long all of an outage's failures take together.
func outageLength() time.Duration { return lasting(10*time.Second, time.Second) }

// TestChaos_settlement lets Redis fail under load and compares its counts afterwards with what was admitted.
func TestChaos_settlement(t *testing.T) {
	playAll(t, settlementHeader, outages, func(o outage) string { return o.name }, func(t *testing.T, o outage) fmt.Stringer {
		b := o.play(t)
		b.check(t)
		return b
	})
}

// play starts Redis and the nodes, and has Redis fail under load.
func (o *outage) play(t *testing.T) *books {
	t.Helper()
	b := &books{outage: o, admitted: map[quota]*admissions{}}
	failing := b.startRedis(t)
	for range o.nodes {
		b.running = append(b.running, caddytest.Start(t, b.caddyfile()))
	}
	for _, n := range b.running {
		for key := range settledKeys {
			caddytest.WaitForRedis(t, n, "/ready?k="+keyName(key))
		}
	}
	b.begin(t)
	times := max(1, o.times)
	span := outageLength() / time.Duration(times)
	<-time.After(span / 2)
	for range times {
		end := o.begin(t, failing)
		b.isOut.Store(true)
		<-time.After(span)
		b.isOut.Store(false)
		end()
		for _, n := range b.running {
			for key := range settledKeys {
				caddytest.WaitForRedis(t, n, "/ready?k="+keyName(key))
			}
		}
		<-time.After(span / 2)
	}
	b.end()
	return b
}

// startRedis starts what the nodes use, and returns the server that is to fail.
func (b *books) startRedis(t *testing.T) *redistest.Server {
	t.Helper()
	if b.masters > 0 {
		masters := redistest.StartCluster(t)
		b.redis = clustered(masters)
		b.server = masters[ownerOf(slotOf(t, masters[0], "hot"))]
		return b.server
	}
	// Without a sync the write that precedes a reply is never put off.
	b.server = redistest.Start(t, "--appendonly", "yes", "--appendfsync", "no")
	b.redis = "redis redis://" + b.server.Addr
	return b.server
}

// caddyfile returns the configuration of every node. No quota but the hot one is ever used up. A bucket
// refills a unit a second.
func (b *books) caddyfile() string {
	site := "redis_ratelimit /ready* {query.k} 1000000 24h {\nname ready\n}\n" +
		"redis_ratelimit /hot {\nname hot\nkey hot\nlimit " + strconv.Itoa(smallLimit) + "\nwindow 400d\nalgorithm fixed_window\n}\n"
	for policy, algorithm := range settledPolicies {
		site += "redis_ratelimit /" + policy + " {\nname " + policy + "\nkey {query.k}\nlimit " + strconv.Itoa(settledLimit) +
			"\nwindow 24h\nalgorithm " + algorithm + "\n}\n"
	}
	global := "redis_ratelimit {\n" + b.redis + "\n" + b.options + "\nfail_mode " + b.failMode + "\n}"
	if b.failMode == "" {
		global = strings.Replace(global, "fail_mode ", "fail_mode local", 1)
	}
	return caddytest.Quietly(caddytest.Config(global, site+caddytest.ShowDecision))
}

// check compares what Redis has counted with what was admitted. A request without a reply is of unknown
// outcome: Redis may have counted it, and is not told of it.
func (b *books) check(t *testing.T) {
	t.Helper()
	b.unknown = b.metric(t, `store_errors_total{kind="timeout"}`) + b.metric(t, `store_errors_total{kind="connection"}`)
	b.lost = b.metric(t, `refund_errors_total{kind="timeout"}`) + b.metric(t, `refund_errors_total{kind="connection"}`)
	if b.wrong != "" {
		t.Error(b.wrong)
	}
	for q, a := range b.admitted {
		b.checkQuota(t, q, *a)
	}
	checkNoneWaits(t, b.slowest, b.stalled())
}

// checkQuota waits until a quota's debts have arrived, and checks that no unit arrived twice.
func (b *books) checkQuota(t *testing.T, q quota, a admissions) {
	t.Helper()
	most := a.redis + a.local
	least := most - b.unknown
	if b.forgiven {
		least, most = a.redis, min(most, a.redis+b.unknown)
	}
	if q.policy == "bucket" { // it drains on Redis and on every node
		drains := int(math.Ceil(time.Since(b.began).Seconds()))
		least -= drains * (1 + b.nodes)
	}
	capacity := settledLimit
	if q.policy == "hot" {
		capacity = smallLimit
	}
	least, most = min(least, capacity), min(most, capacity)
	if b.lost > 0 {
		t.Logf("%d settlements had no reply", b.lost)
		least = min(least, a.redis)
	}
	counted := 0
	assert.Retry(t, fmt.Sprintf("%v is settled", q), func() (again bool, seen any) {
		counted = capacity - int(b.running[0].Remaining(t, q.policy, q.key))
		return counted < least, fmt.Sprintf("Redis has counted %d of %+v; want at least %d", counted, a, least)
	})
	assert.ErrorIf(t, counted > most, "of %v Redis has counted %d of %+v; want at most %d", q, counted, a, most)
	switch q.policy {
	case "hot":
		b.hotAdmitted, b.hotCounted = a.redis+a.local, windowUnits(t, b.server, "rl:{hot}:hot:*")
		assert.ErrorIf(t, b.hotCounted > smallLimit, "of %v Redis has counted %d; the limit is %d", q, b.hotCounted, smallLimit)
	case "bucket": // what it drained stands nowhere
	default:
		b.counted += counted
		b.onRedis += a.redis
		b.onNodes += a.local
	}
}

// windowUnits returns the units of all fixed windows that Redis has under names of a pattern.
func windowUnits(t *testing.T, server *redistest.Server, pattern string) (sum int) {
	t.Helper()
	client := server.Client(t)
	for keys := client.Scan(t.Context(), 0, pattern, 10_000).Iterator(); keys.Next(t.Context()); {
		state, err := client.Get(t.Context(), keys.Val()).Bytes()
		assert.FatalIf(t, err != nil || len(state) != 16, "%s is %q, %v", keys.Val(), state, err)
		sum += int(math.Float64frombits(binary.LittleEndian.Uint64(state[8:])))
	}
	return sum
}

// metric sums a series over the nodes.
func (b *books) metric(t *testing.T, series string) (sum int) {
	t.Helper()
	for _, n := range b.running {
		sum += int(n.Metric(t, series))
	}
	return sum
}

// manyKeys returns how many clients a node admits in one outage.
func manyKeys() int64 { return lasting[int64](100_000, 500) }

// TestChaos_settlement_keys admits a unit each of many clients in an outage, none of whom comes again. All
// are settled, at the pace that docs/reliability.md names.
func TestChaos_settlement_keys(t *testing.T) {
	beside(t)
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "no")
	n := caddytest.Start(t, caddytest.Quietly(caddytest.Config(caddytest.RedisAt(server.Addr, "timeout 10s"), // what ends late is lost
		"redis_ratelimit {query.k} 10 400d {\nname many\nalgorithm fixed_window\n}\n"+caddytest.ShowDecision)))
	caddytest.WaitForRedis(t, n, "/?k=ready")
	end := kill(t, server)
	assert.Retry(t, "the outage begins", func() (again bool, seen any) {
		a := n.Get(t, "/?k=ready")
		return a.Body == "allowed redis", a
	})
	admitOnce(t, n, manyKeys())
	end()
	const settled = `settled_units_total{direction="outage",policy="many"}`
	began, arrived := time.Now(), int64(0)
	for arrived < manyKeys() {
		next := min(manyKeys(), arrived+100) // within the time of WaitFor, on a busy machine too
		assert.Retry(t, fmt.Sprintf("%d keys are settled", next), func() (again bool, seen any) {
			arrived = int64(n.Metric(t, settled))
			return arrived < next, fmt.Sprintf("%d are", arrived)
		})
	}
	took := time.Since(began)
	t.Logf("%d keys were settled in %v: %.0f a second", arrived, took, float64(arrived)/took.Seconds())
	units := int64(windowUnits(t, server, "rl:{m*}:many:*"))
	assert.ErrorIf(t, units != manyKeys(), "Redis has counted %d units; want %d", units, manyKeys())
	const perSecond = 4 * 128
	least := time.Duration(manyKeys()/perSecond-1) * time.Second
	assert.ErrorIf(t, took < least, "%d keys were settled in %v; want at least %v", arrived, took, least)
	if arrived > manyKeys()+1 { // with the key that has found the outage
		t.Errorf("%d units were settled; want %d", arrived, manyKeys()+1)
	}
}

// admitOnce sends a request of each of so many clients.
func admitOnce(t *testing.T, n *caddytest.Node, clients int64) {
	t.Helper()
	var next atomic.Int64
	var senders sync.WaitGroup
	for range stormClients {
		senders.Go(func() {
			for i := next.Add(1); i <= clients; i = next.Add(1) {
				if a, err := n.Try(http.MethodGet, fmt.Sprintf("%s/?k=m%d", n.URL, i), ""); err != nil || a.Body != "allowed fallback" {
					t.Errorf("client %d: %v, %v", i, a, err)
					return
				}
			}
		})
	}
	senders.Wait()
}
