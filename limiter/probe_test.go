package limiter

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/clock"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// listener collects the reports of a store.
type listener struct {
	mu    sync.Mutex
	lines []string
}

func (l *listener) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *listener) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, " ")
}

// openLimited returns a store whose user's permissions the test changes, and its reports: every
// outage, recovery and loss.
func openLimited(t *testing.T) (r *Redis, reported *listener, setPermissions func(rights ...string)) {
	t.Helper()
	server := redistest.Start(t)
	admin := server.Client(t)
	setPermissions = func(rights ...string) {
		t.Helper()
		command := []any{"acl", "setuser", "limited", "on", ">secret", "~*"}
		for _, right := range rights {
			command = append(command, right)
		}
		if err := admin.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	setPermissions("+@all")
	client, err := NewClient(ClientOptions{Addresses: []string{server.Addr}, Username: "limited", Password: "secret", Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	reported = &listener{}
	r = NewRedis(client, RedisOptions{
		KeyFormat:  KeyFormat{Prefix: "rl"},
		OnOutage:   func(err error) { reported.add("outage:" + Kind(err)) },
		OnRecovery: func(time.Duration) { reported.add("recovery") },
		OnLost:     func(err error) { reported.add("lost:" + Kind(err)) },
	})
	t.Cleanup(func() { _ = r.Close() })
	return r, reported, setPermissions
}

// waitReported waits until a store has reported this and nothing else.
func waitReported(t *testing.T, reported *listener, want string) {
	t.Helper()
	redistest.WaitFor(t, "the store reports "+want, func() error {
		if got := reported.String(); got != want {
			return fmt.Errorf("it reports %q", got)
		}
		return nil
	})
}

// waitProbes waits until a node has been probed twice and still fails.
func waitProbes(t *testing.T, s *node) {
	t.Helper()
	last := s.breaker.probes.Load()
	for range 2 {
		redistest.WaitFor(t, "the server is probed", func() error {
			if at := s.breaker.probes.Load(); at != last {
				last = at
				return nil
			}
			return errors.New("not yet")
		})
	}
	if !s.breaker.open() {
		t.Error("the probe has closed the breaker")
	}
}

func TestProbe_missing_permission(t *testing.T) {
	t.Parallel()
	for right, algorithm := range map[string]string{"set": GCRA, "rpush": SlidingWindowLog, "pexpire": SlidingWindowLog, "get": FixedWindow, "llen": SlidingWindowLog} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			weight := int64(1)
			if right == "llen" {
				weight = 100 // a denial alone needs it
			}
			r, reported, setPermissions := openLimited(t)
			p := dayPolicy(t, "limited", algorithm, 100)
			other := dayPolicy(t, "other", GCRA, 100)
			decide(t, r, Check{Policy: p, Key: EncodeKey("k"), Weight: 1})
			setPermissions("-" + right)
			check := Check{Policy: p, Key: EncodeKey("k"), Weight: weight}
			if err := r.Probe(t.Context(), []Check{check}); Kind(err) != "auth" {
				t.Errorf("a probe before any decision: %v", err)
			}
			if err := r.ProbeAll(t.Context(), []*Policy{other, p}); Kind(err) != "auth" {
				t.Errorf("a probe of all policies: %v", err)
			}
			if _, err := r.Decide(t.Context(), []Check{check}); Kind(err) != "auth" {
				t.Errorf("a decision: %v of kind %s", err, Kind(err))
			}
			if _, err := r.Decide(t.Context(), []Check{check}); !errors.Is(err, ErrOutage) {
				t.Errorf("the next decision: %v", err)
			}
			waitProbes(t, r.topology.anyNode)
			if err := r.Probe(t.Context(), []Check{check}); Kind(err) != "auth" {
				t.Errorf("a probe while the breaker is open: %v", err)
			}
			setPermissions("+" + right)
			waitReported(t, reported, "outage:auth recovery")
			decide(t, r, check)
		})
	}
}

// TestProbe_refund has a refund from a long log need a permission that no take needs.
func TestProbe_refund(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"lset", "lrange"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			r, reported, setPermissions := openLimited(t)
			p := dayPolicy(t, "limited", SlidingWindowLog, 100)
			if err := p.AllowRefunds(); err != nil {
				t.Fatal(err)
			}
			first := decide(t, r, Check{Policy: p, Key: EncodeKey("k"), Weight: 1, Refundable: true})
			decide(t, r, Check{Policy: p, Key: EncodeKey("k"), Weight: 1})
			setPermissions("-" + right)
			refundIn(r, first)
			waitReported(t, reported, "outage:auth lost:auth")
			waitProbes(t, r.topology.anyNode)
			refundIn(r, first)
			unsent := 0
			keptOf(&first[0]).Change = 1
			r.settle(&first[0], false, func(_ *Check, err error) {
				if unsent++; !errors.Is(err, ErrOutage) {
					t.Errorf("a charge while the breaker is open: %v", err)
				}
			})
			if unsent != 1 {
				t.Error("a charge is sent while the breaker is open")
			}
			setPermissions("+" + right)
			waitReported(t, reported, "outage:auth lost:auth lost:breaker recovery")
		})
	}
}

func TestProbe_idle_store(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := openRedis(t, server, time.Second)
	p := dayPolicy(t, "idle", GCRA, 100)
	server.Kill()
	if err := errorOf(r, p, "k"); err == nil {
		t.Fatal("a dead Redis decides")
	}
	server.Run(t)
	redistest.WaitFor(t, "the breaker closes without a request", func() error {
		if failing, _ := r.topology.failing(); failing {
			return errors.New("it is open")
		}
		return nil
	})
	client, ctx := server.Client(t), t.Context()
	name := r.RedisKey(p, AsEncoded(probeKey))
	if keys := client.Keys(ctx, "*").Val(); len(keys) > 1 || len(keys) == 1 && keys[0] != name {
		t.Errorf("the probe has left %v", keys)
	}
	if ttl := client.PTTL(ctx, name).Val(); ttl > 3*time.Second || ttl == -1 {
		t.Errorf("its key lives for %v", ttl)
	}
}

func TestProbe_idle_master(t *testing.T) {
	t.Parallel()
	r, masters := openTolerantCluster(t)
	p := dayPolicy(t, "idle", SlidingWindowLog, 100)
	key := ""
	for i := 0; key == ""; i++ {
		if k := fmt.Sprint("client-", i); r.keyFormat.newWriter().slotOf(k) > 2*clusterSlots/3+1 {
			key = k
		}
	}
	decide(t, r, Check{Policy: p, Key: EncodeKey(key), Weight: 1})
	decide(t, r, Check{Policy: p, Key: EncodeKey(key), Weight: 1})
	masters[2].Kill()
	redistest.WaitFor(t, "the breaker opens", func() error {
		_ = errorOf(r, p, key)
		if failing, _ := r.topology.failing(); !failing {
			return errors.New("closed")
		}
		return nil
	})
	masters[2].Run(t)
	redistest.WaitFor(t, "the breaker closes without a request", func() error {
		if failing, _ := r.topology.failing(); failing {
			return fmt.Errorf("open: %w", r.topology.to(r.keyFormat.newWriter().slotOf(key)).cause.Load().err)
		}
		return nil
	})
}

func TestProbe_keys(t *testing.T) {
	t.Parallel()
	for _, naming := range []KeyFormat{{Prefix: "rl"}, {Prefix: "rl", Secret: "s"}} {
		r := &Redis{admin: admin{keyFormat: naming}}
		n := naming.newWriter()
		for slot := uint16(0); slot < clusterSlots; slot += 997 {
			if key := r.probeKeyIn(slot); n.slotOf(key) != slot || !strings.HasPrefix(key, probeKey) {
				t.Errorf("slot %d: %q lies in %d", slot, key, n.slotOf(key))
			}
		}
	}
}

// probing counts the goroutines that probe for a store. Requests that other tests left running keep the stores of
// these open.
func probing(r *Redis) int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), fmt.Sprintf("(*Redis).recover(%p,", r))
}

func TestProbe_ends(t *testing.T) {
	a := newTestCluster(t, owned(0, 16383, masterA))
	none := func() error {
		if n := probing(a.Redis); n > 0 {
			return fmt.Errorf("%d goroutines probe", n)
		}
		return nil
	}
	a.topology.discover()
	s := a.topology.to(0)
	s.report(opTake, 0, nil, clock.Now(), refused)
	redistest.WaitFor(t, "the server is probed by one goroutine", func() error {
		if n := probing(a.Redis); n != 1 || !s.breaker.open() {
			return fmt.Errorf("%d goroutines probe", n)
		}
		return nil
	})
	a.assign(t, owned(0, 16383, masterB))
	a.topology.to(0) // retires it
	redistest.WaitFor(t, "the probes of a retired server end", none)
	a.topology.to(0).report(opTake, 0, nil, clock.Now(), refused)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	redistest.WaitFor(t, "the probes of a closed store end", none)
}

// TestProbe_replaced_master sends no further request for the slot.
func TestProbe_replaced_master(t *testing.T) {
	t.Parallel()
	a := newTestCluster(t, owned(0, 16383, masterA))
	a.topology.discover()
	gone := a.topology.to(0)
	gone.report(opTake, 0, nil, clock.Now(), refused)
	a.assign(t, owned(0, 16383, masterB))
	redistest.WaitFor(t, "the outage ends", func() error {
		if failing, _ := a.topology.failing(); failing {
			return errors.New("it fails")
		}
		return nil
	})
}

// TestRedis_enqueueAsync_full_queue queues a refund where the queue is full.
func TestRedis_enqueueAsync_full_queue(t *testing.T) {
	t.Parallel()
	r := openRedis(t, redistest.Shared(t), time.Second)
	reported := &listener{}
	s := r.topology.anyNode
	s.lost = func(err error) { reported.add(Kind(err)) }
	s.batcher.waiting = make([]*call, maxQueue)
	refundIn(r, []Check{{Policy: dayPolicy(t, "full", GCRA, 10), Key: EncodeKey("k"), Refundable: true}})
	if reported.String() != "overload" || s.breaker.row.Load()%(failuresInARow+1) != 1 {
		t.Errorf("reported %q, %d failures", reported, s.breaker.row.Load()%(failuresInARow+1))
	}
	s.batcher.waiting = nil
}
