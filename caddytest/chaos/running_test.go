package chaos

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// runningFault is what happens while two nodes run as many requests as they may.
type runningFault struct {
	name   string
	happen func(t *testing.T) *crowd
}

var runningFaults = []runningFault{
	{"nothing, 2 nodes with 200 clients each", undisturbed},
	{"node killed with 50 requests running", nodeKilled},
	{"node stopped for less than node_timeout", nodeStopped(crowdTimeout/3, false)},
	{"node stopped for longer than node_timeout", nodeStopped(lostTimeout+time.Second, true)},
	{"Redis killed and restarted empty", onOneRedis(true, redisKilled)},
	{"Redis killed and restarted with its data", onOneRedis(false, redisRestarted, "--appendonly", "yes", "--appendfsync", "no")},
	{"Redis paused and resumed", onOneRedis(false, redisPaused)},
	{"FLUSHALL", onOneRedis(true, redisFlushed)},
	{"failover to a replica that lags", replicaLags},
	{"failover by command", failoverByCommand},
	{"one node parted from Redis for less than node_timeout", nodeParted(crowdTimeout/3, false)},
	{"one node parted from Redis for longer", nodeParted(lostTimeout+time.Second, true)},
	{"Redis's clock 10 s ahead, and back", clockStepped},
}

// TestChaos_running counts at the backend how many requests run at a time.
func TestChaos_running(t *testing.T) {
	playAll(t, crowdHeader, runningFaults, func(f runningFault) string { return f.name }, func(t *testing.T, f runningFault) fmt.Stringer {
		c := f.happen(t)
		c.end()
		c.checkAbove(t)
		return c
	})
}

// undisturbed checks the properties without a fault.
func undisturbed(t *testing.T) *crowd {
	c := newCrowd(t, 50, redistest.Start(t).Addr)
	c.keepUnless(false) // a busy machine may lose no node
	c.clientsOf = [2]int{200, 200}
	c.pause = lasting(crowdPause, 4*crowdPause)
	c.begin(t, 5, 5)
	c.checkHealed(t, time.Now())
	return c
}

// nodeKilled kills a node at once. Its places are free when Redis has not had contact with it for the node timeout.
func nodeKilled(t *testing.T) *crowd {
	c := newCrowd(t, 60, redistest.Start(t).Addr)
	c.clientsOf = [2]int{0, 70}
	c.begin(t, 50, 0)
	_ = c.nodes[0].Command.Process.Kill() // its end is seen at the backend
	assert.Retry(t, "the backend has lost the node", func() (again bool, seen any) {
		held := c.refused.holds() + c.waiting.holds()
		return held > 0, fmt.Sprintf("it still runs %d of its requests", held)
	})
	killed := time.Now()
	c.look()
	c.checkHealed(t, killed)
	return c
}

// onOneRedis has a fault happen to the Redis of both nodes, which may forget what runs.
func onOneRedis(forgets bool, fault func(t *testing.T, c *crowd, server *redistest.Server), args ...string) func(t *testing.T) *crowd {
	return func(t *testing.T) *crowd {
		server := redistest.Start(t, args...)
		c := newCrowd(t, 20, server.Addr)
		c.keepUnless(forgets)
		c.begin(t, 5, 5)
		c.forgets = forgets
		fault(t, c, server)
		c.checkHealed(t, time.Now())
		return c
	}
}

// redisKilled has Redis forget what runs. The nodes tell it again by their next requests.
func redisKilled(t *testing.T, c *crowd, server *redistest.Server) {
	server.Kill()
	c.hold()
	server.Run(t)
}

// redisRestarted has Redis away for less than the node timeout, and keep what it was told.
func redisRestarted(t *testing.T, _ *crowd, server *redistest.Server) {
	server.Kill()
	<-time.After(min(stormPhase(), crowdTimeout/2))
	server.Run(t)
}

// redisPaused ends the pause before the node timeout, with time for the nodes' probes: Redis forgets nothing.
func redisPaused(t *testing.T, _ *crowd, server *redistest.Server) {
	server.Pause(t)
	<-time.After(min(stormPhase(), crowdTimeout/2))
	server.Resume(t)
}

func redisFlushed(t *testing.T, _ *crowd, server *redistest.Server) { do(t, server, "flushall") }

// replicaLags fails over to a replica that was stopped before the nodes began most of what they run.
func replicaLags(t *testing.T) *crowd {
	p := startPair(t, 0)
	c := newCrowd(t, 20, "")
	c.redis = p.watched().redis
	p.replica.Pause(t)
	c.begin(t, 5, 5)
	c.forgets = true
	p.master.Kill()
	p.replica.Resume(t)
	p.promoted(t)
	c.checkHealed(t, time.Now())
	return c
}

// failoverByCommand fails over to a replica that follows. Redis may lose what it answered last.
func failoverByCommand(t *testing.T) *crowd {
	p := startPair(t, 0)
	c := newCrowd(t, 20, "")
	c.redis = p.watched().redis
	c.begin(t, 5, 5)
	c.forgets = true
	p.failOver(t)
	p.promoted(t)
	c.checkHealed(t, time.Now())
	return c
}

// nodeParted keeps a node from Redis. It lets no new request run, and those that run count no more once it is parted for longer
// than its timeout: the other node may run as many then. Once Redis has contact with it again, none is let through until
// enough have ended.
func nodeParted(span time.Duration, forgets bool) func(t *testing.T) *crowd {
	return func(t *testing.T) *crowd {
		server := redistest.Start(t)
		c := newCrowd(t, 20, server.Addr)
		c.outlast(forgets)
		proxy := redistest.NewProxy(t, server.Addr)
		c.addresses[0] = proxy.Addr
		c.begin(t, 5, 0)
		c.forgets, c.loses = forgets, forgets
		proxy.Part()
		<-time.After(span)
		c.look()
		proxy.Join()
		c.checkHealed(t, time.Now())
		return c
	}
}

// nodeStopped stops the process of a node, whose requests run on at the backend. After its timeout they count no more.
func nodeStopped(span time.Duration, forgets bool) func(t *testing.T) *crowd {
	return func(t *testing.T) *crowd {
		c := newCrowd(t, 20, redistest.Start(t).Addr)
		c.outlast(forgets)
		c.begin(t, 5, 5)
		c.forgets, c.loses = forgets, forgets
		assert.Must(t, c.nodes[0].Command.Process.Signal(syscall.SIGSTOP))
		t.Cleanup(func() { _ = c.nodes[0].Command.Process.Signal(syscall.SIGCONT) }) // so that its clients end
		<-time.After(span)
		assert.Must(t, c.nodes[0].Command.Process.Signal(syscall.SIGCONT))
		c.checkHealed(t, time.Now())
		return c
	}
}

// clockStepped moves the clock that the node timeout is counted by: ahead by twice its length, so that all
// nodes seem silent, and back, so that all seem to have spoken in the future.
func clockStepped(t *testing.T) *crowd {
	server, step := redistest.StartStepping(t)
	c := newCrowd(t, 20, server.Addr)
	c.begin(t, 5, 5)
	c.forgets = true
	step(2 * crowdTimeout)
	c.checkHealed(t, time.Now())
	step(0)
	c.checkHealed(t, time.Now())
	return c
}

// overridesOf returns the keys of the overrides that a node lists.
func overridesOf(t *testing.T, n *caddytest.Node) map[string]bool {
	t.Helper()
	a := n.Ask(t, http.MethodGet, "overrides", "")
	keys := map[string]bool{}
	for _, o := range caddytest.ParseJSON[struct{ Overrides []struct{ Key string } }](t, a).Overrides {
		keys[o.Key] = true
	}
	return keys
}

// TestOverrides_failover sets overrides at one node while a replica takes over and another node reloads. All
// that were confirmed apply on both nodes afterwards.
func TestOverrides_failover(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(t *testing.T, p pair){
		"by command": func(t *testing.T, p pair) { do(t, p.sentinel, "sentinel", "failover", "main") },
		"killed":     func(_ *testing.T, p pair) { p.master.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startPair(t, 0)
			config := func(timeout int) string {
				return caddytest.Quietly(caddytest.Config(fmt.Sprintf("redis_ratelimit {\n%s\ntimeout %dms\n}", p.watched().redis, timeout), caddytest.LimitedSite))
			}
			a, b := caddytest.Start(t, config(300)), caddytest.Start(t, config(300))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var mu sync.Mutex
			var confirmed []string
			var running sync.WaitGroup
			running.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					<-time.After(requestPace() / 2)
					key := fmt.Sprint("key", i%500)
					r, err := a.Try(http.MethodPost, a.Admin+"/redis_ratelimit/override", `{"policy":"api","key":"`+key+`","block":true}`)
					switch {
					case err != nil:
						t.Error(err)
						return
					case r.Status == http.StatusOK && strings.Contains(r.Body, `"node_only"`): // until Redis decides
					case r.Status == http.StatusOK:
						mu.Lock()
						confirmed = append(confirmed, key)
						mu.Unlock()
					case r.Status != http.StatusServiceUnavailable:
						t.Errorf("got %v", r)
						return
					}
				}
			})
			more := func(what string) {
				mu.Lock()
				before := len(confirmed)
				mu.Unlock()
				assert.Retry(t, what, func() (again bool, seen any) {
					mu.Lock()
					defer mu.Unlock()
					return len(confirmed) < before+20, "none is set"
				})
			}
			more("overrides are set")
			fail(t, p)
			b.Reload(t, config(310))
			assert.WaitFor(t, "the replica is the master", func() error {
				return checkInfo(t, p.replica, "replication", "role:master")
			})
			more("overrides are set at the new master")
			stop()
			running.Wait()
			assert.WaitFor(t, "all are on both nodes", func() error {
				for _, n := range []*caddytest.Node{a, b} {
					keys := overridesOf(t, n)
					for _, key := range confirmed {
						if !keys[key] {
							return fmt.Errorf("%s of %d is missing among %d", key, len(confirmed), len(keys))
						}
					}
				}
				return nil
			})
			for _, key := range []string{confirmed[0], confirmed[len(confirmed)/2], confirmed[len(confirmed)-1]} {
				r := b.Get(t, "/", "X-Key: "+key)
				assert.ErrorIf(t, r.Body != "denied override", "%s: got %v", key, r)
			}
		})
	}
}
