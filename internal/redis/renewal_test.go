package redis

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

func TestMain(m *testing.M) {
	if err := redistest.ResolveNames(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// pair are two servers, and an address that leads to the old one until a test changes that.
type pair struct {
	old, other *redistest.Server
	options    dial.Connection
	lead       func(to *redistest.Server)
	proxy      *redistest.Proxy // nil for a name
}

// startPair starts two servers with the same arguments, and makes a path to the old one: a proxy, or a name.
func startPair(t *testing.T, path string, secure bool, args ...string) *pair {
	t.Helper()
	p := &pair{options: dial.Connection{Timeout: time.Minute}}
	secured := map[*redistest.Server]string{}
	start := func(own ...string) *redistest.Server {
		return redistest.Start(t, append(own, args...)...)
	}
	var authority *redistest.Authority
	if secure {
		authority = redistest.NewAuthority(t)
		p.options.LoadTLS = secretfile.TLS{CA: authority.CA, ServerName: "redis.test"}.Load
		start = func(own ...string) *redistest.Server {
			address, serve := authority.ServeTLS(t)
			if p.old != nil && path == "name" {
				address = secured[p.old]
				serve[1] = portOf(t, address)
			}
			s := redistest.Start(t, slices.Concat(own, args, serve)...)
			secured[s] = address
			return s
		}
	}
	p.old = start()
	address := func(s *redistest.Server) string { return cmp.Or(secured[s], s.Addr) }
	if path == "proxy" {
		p.other = start()
		proxy := redistest.NewProxy(t, address(p.old))
		p.options.Addresses = []string{proxy.Addr}
		p.lead = func(to *redistest.Server) { proxy.Lead(address(to)) }
		p.proxy = proxy
		return p
	}
	// Both have the same ports, at two addresses of this machine.
	p.other = start("--bind", "127.0.0.2", "--port", portOf(t, p.old.Addr))
	p.other.Addr = net.JoinHostPort("127.0.0.2", portOf(t, p.old.Addr))
	name := redistest.NewName(t, "127.0.0.1")
	p.options.Addresses = []string{net.JoinHostPort(name.Host, portOf(t, address(p.old)))}
	p.lead = func(to *redistest.Server) {
		name.Lead(t, map[*redistest.Server]string{p.old: "127.0.0.1", p.other: "127.0.0.2"}[to])
	}
	return p
}

func portOf(t testing.TB, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	assert.Must(t, err)
	return port
}

// open returns a store on the pair's path, and what it reports.
func (p *pair) open(t *testing.T) (r *Store, reported *reports) {
	t.Helper()
	reported = &reports{}
	client := assert.NoError(dial.New(p.options))(t)
	r = New(client, Setup{
		KeyFormat:      limiter.KeyFormat{Prefix: "rl"},
		OnOutage:       func(err error) { reported.add("outage:" + limiter.Kind(err)) },
		OnRecovery:     func(time.Duration) { reported.add("recovery") },
		OnRefusedLogin: func(error) { reported.refusedLogins.Add(1) },
	})
	t.Cleanup(func() { _ = r.Close() })
	return r, reported
}

// reports collects what a store reports, in order.
type reports struct {
	refusedLogins atomic.Int32

	mu    sync.Mutex
	lines []string
}

func (r *reports) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

func (r *reports) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, " ")
}

// take takes a unit of the key k.
func take(r *Store, p *limiter.Policy) error {
	_, err := r.Decide(context.Background(), []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k"), Weight: 1}})
	return err
}

// connectionsOf returns the IDs of the connections of a server that are not the test's.
func connectionsOf(t testing.TB, s *redistest.Server) (ids []string) {
	t.Helper()
	watcher := s.Client(t).Conn()
	defer watcher.Close() //nolint:errcheck // it goes back to its pool
	own := watcher.ClientID(context.Background()).Val()
	list := watcher.ClientList(context.Background()).Val()
	for _, m := range regexp.MustCompile(`(?m)^id=(\d+) .* flags=(\w) .* cmd=(\S+)`).FindAllStringSubmatch(list, -1) {
		if m[1] != fmt.Sprint(own) && m[2] == "N" && (strings.HasPrefix(m[3], "eval") || m[3] == "ping" || m[3] == "auth") {
			ids = append(ids, m[1])
		}
	}
	return ids
}

// do sends a command to a server.
func do(t testing.TB, s *redistest.Server, command ...any) {
	t.Helper()
	client := s.Client(t)
	if err := client.Do(context.Background(), command...).Err(); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	assert.Must(t, client.Close())
}

// refusals have a server refuse while it lives on and its connections stay open. Each returns how the refusal ends.
var refusals = map[string]func(t *testing.T, old, other *redistest.Server) (ends func()){
	"readonly": func(t *testing.T, old, other *redistest.Server) func() {
		host, port, err := net.SplitHostPort(other.Addr)
		assert.Must(t, err)
		do(t, old, "replicaof", host, port)
		return func() { do(t, old, "replicaof", "no", "one") }
	},
	"masterdown": func(t *testing.T, old, _ *redistest.Server) func() {
		do(t, old, "config", "set", "replica-serve-stale-data", "no")
		do(t, old, "replicaof", "127.0.0.1", "1")
		return func() { do(t, old, "replicaof", "no", "one") }
	},
	"oom": func(t *testing.T, old, _ *redistest.Server) func() {
		do(t, old, "config", "set", "maxmemory", "1")
		return func() { do(t, old, "config", "set", "maxmemory", "0") }
	},
	"misconf": func(t *testing.T, old, _ *redistest.Server) func() {
		gone := filepath.Join(t.TempDir(), "gone")
		assert.Must(t, os.Mkdir(gone, 0o700))
		do(t, old, "config", "set", "dir", gone)
		assert.Must(t, os.Remove(gone))
		do(t, old, "config", "set", "save", "3600 1")
		do(t, old, "set", "changed", "1")
		do(t, old, "bgsave")
		client := old.Client(t)
		assert.Retry(t, "the server cannot save", func() (again bool, seen any) {
			info := client.Info(context.Background(), "persistence").Val()
			return !strings.Contains(info, "rdb_last_bgsave_status:err"), info
		})
		return func() { do(t, old, "config", "set", "save", "") }
	},
	"noreplicas": func(t *testing.T, old, _ *redistest.Server) func() {
		do(t, old, "config", "set", "min-replicas-to-write", "1")
		return func() { do(t, old, "config", "set", "min-replicas-to-write", "0") }
	},
	"auth": func(t *testing.T, old, _ *redistest.Server) func() {
		do(t, old, "acl", "setuser", "app", "-set")
		return func() { do(t, old, "acl", "setuser", "app", "+set") }
	},
	"loading": func(t *testing.T, old, other *redistest.Server) func() {
		do(t, other, "debug", "populate", "100000", "other", "100")
		do(t, old, "config", "set", "key-load-delay", "500", "loading-process-events-interval-bytes", "1024")
		host, port, err := net.SplitHostPort(other.Addr)
		assert.Must(t, err)
		do(t, old, "replicaof", host, port)
		client := old.Client(t)
		assert.Retry(t, "the server loads", func() (again bool, seen any) {
			err := client.Get(context.Background(), "k").Err()
			return err == nil || !strings.HasPrefix(err.Error(), "LOADING"), err
		})
		return func() {}
	},
}

// TestRenew_refusal has a server refuse whose address leads to another one by then: through a proxy and by a name, with
// TLS, and with logins that change. The store decides on the other one, and the old connections are closed.
func TestRenew_refusal(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"proxy", "name"} {
		for refusal := range refusals {
			t.Run(path+"/"+refusal, func(t *testing.T) {
				t.Parallel()
				testRefusal(t, startPairFor(t, path, false), refusal)
			})
		}
		t.Run(path+"/tls", func(t *testing.T) {
			t.Parallel()
			testRefusal(t, startPairFor(t, path, true), "readonly")
		})
		t.Run(path+"/login that changes", func(t *testing.T) {
			t.Parallel()
			p := startPairFor(t, path, false)
			file := filepath.Join(t.TempDir(), "password")
			assert.Must(t, os.WriteFile(file, []byte("first"), 0o600))
			p.options.Password, p.options.Credentials = "", credentials.File(file)
			testRefusal(t, p, "readonly")
		})
	}
}

// startPairFor starts servers that tests can have refuse, with a user.
func startPairFor(t *testing.T, path string, secure bool) *pair {
	t.Helper()
	p := startPair(t, path, secure, "--enable-debug-command", "yes", "--enable-protected-configs", "yes", "--repl-diskless-sync-delay", "0")
	for _, s := range []*redistest.Server{p.old, p.other} {
		do(t, s, "acl", "setuser", "app", "on", ">first", "~*", "+@all")
	}
	p.options.Username, p.options.Password = "app", "first"
	return p
}

func testRefusal(t *testing.T, p *pair, refusal string) {
	t.Helper()
	r, reported := p.open(t)
	policy := storetest.DayPolicy(t, "renewed", limiter.GCRA, 1_000) // a unit lasts for more than a minute
	if err := take(r, policy); err != nil {
		t.Fatal(err)
	}
	refusals[refusal](t, p.old, p.other)
	if err := take(r, policy); limiter.Kind(err) != refusal {
		t.Fatalf("the old server answers %v, want %s", err, refusal)
	}
	p.lead(p.other)
	assert.WaitFor(t, "the other server decides", func() error { return take(r, policy) })
	assert.Equal(t, reported.String(), "outage:"+refusal+" recovery", "what was reported")
	stored := p.other.Client(t).Exists(context.Background(), r.RedisKey(policy, limiter.EncodeKey("k"))).Val()
	assert.ErrorIf(t, stored != 1, "the other server has not decided")
	waitNoConnection(t, p.old)
}

// TestRenew_stays has a server refuse, and decide again: its connections stay where its address leads to nothing better.
func TestRenew_stays(t *testing.T) {
	t.Parallel()
	for name, worsen := range map[string]func(t *testing.T, p *pair){
		"new connections cannot log in": func(t *testing.T, p *pair) { do(t, p.other, "acl", "setuser", "app", "resetpass", ">second") },
		"the other refuses too":         func(t *testing.T, p *pair) { do(t, p.other, "config", "set", "maxmemory", "1") },
		"nothing listens":               func(_ *testing.T, p *pair) { p.other.Kill() },
		"no more clients": func(t *testing.T, p *pair) {
			assert.Must(t, p.other.Client(t).ConfigSet(t.Context(), "maxclients", "1").Err()) // this one stays
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startPairFor(t, "proxy", false)
			r, reported := p.open(t)
			policy := storetest.DayPolicy(t, "stays", limiter.GCRA, 1_000_000)
			assert.Must(t, take(r, policy))
			before := connectionsOf(t, p.old)
			ends := refusals["oom"](t, p.old, p.other)
			worsen(t, p)
			p.lead(p.other)
			assert.ErrorIf(t, take(r, policy) == nil, "a full server decides")
			last := r.Topology.AnyNode.Breaker.Probes.Load()
			for range 3 {
				assert.Retry(t, "the server is probed", func() (again bool, seen any) {
					now := r.Topology.AnyNode.Breaker.Probes.Load()
					again, last = now == last, now
					return again, "not yet"
				})
			}
			ends()
			assert.WaitFor(t, "the old server decides", func() error { return take(r, policy) })
			assert.Equal(t, connectionsOf(t, p.old), before, "the connections of the old server")
			assert.Equal(t, reported.String(), "outage:oom recovery", "what was reported")
			cannotLogIn := reported.refusedLogins.Load() > 0
			assert.ErrorIf(t, cannotLogIn != (name == "new connections cannot log in"), "a refused login was reported: %v", cannotLogIn)
		})
	}
}

// TestRenew_now renews connections that decide, at a server that takes 300 ms to log in: no request waits for that, and
// those under way are answered. Where the machine is busy, a request may wait longer once, but not each time.
func TestRenew_now(t *testing.T) {
	t.Parallel()
	const login = 300 * time.Millisecond
	worst := login
	for tries := 0; tries < 5 && worst >= login; tries++ {
		worst = renewUnderLoad(t, login)
	}
	assert.ErrorIf(t, worst >= login, "a request waited for %v", worst)
}

// renewUnderLoad returns how long a request waited at most, without the time for which this process or the server waited for a
// processor.
func renewUnderLoad(t *testing.T, login time.Duration) (worst time.Duration) {
	t.Helper()
	p := startPairFor(t, "proxy", false)
	p.options.PoolSize = 4
	r, reported := p.open(t)
	policy := storetest.DayPolicy(t, "now", limiter.FixedWindow, 1_000_000)
	p.openAll(t, r) // requests need no more connections
	stalls := redistest.WatchStalls(t, p.old)
	var taken atomic.Int64
	var longest atomic.Int64
	over, load := make(chan struct{}), sync.WaitGroup{}
	decide := func() {
		began := time.Now()
		if err := take(r, policy); err != nil {
			t.Error(err)
		}
		taken.Add(1)
		for took := int64(time.Since(began)); ; {
			if most := longest.Load(); took <= most || longest.CompareAndSwap(most, took) {
				return
			}
		}
	}
	p.proxy.DelayLogins(login)
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					decide()
				}
			}
		})
	}
	for range 3 {
		before := connectionsOf(t, p.old)
		r.Topology.AnyNode.renewal.startBy(0)
		assert.Retry(t, "other connections are in use", func() (again bool, seen any) {
			now := connectionsOf(t, p.old)
			return len(now) == 0 || slices.ContainsFunc(now, func(id string) bool { return slices.Contains(before, id) }), now
		})
	}
	close(over)
	load.Wait()
	worst = time.Duration(longest.Load()) - stalls().Longest()
	used := assert.NoError(storetest.Peek(t.Context(), r, policy, "k"))(t)
	assert.ErrorIf(t, used.Remaining != 1_000_000-taken.Load(), "%d remain of 1,000,000 after %d requests", used.Remaining, taken.Load())
	assert.Equal(t, reported.String(), "", "what was reported")
	return worst
}

// openAll opens all connections that a store may have.
func (p *pair) openAll(t *testing.T, r *Store) {
	t.Helper()
	assert.Retry(t, "all connections are open", func() (again bool, seen any) {
		do(t, p.old, "client", "pause", "100")
		var group sync.WaitGroup
		for range p.options.PoolSize {
			group.Go(func() { _ = r.Client().Ping(t.Context()) })
		}
		group.Wait()
		open := r.Client().PoolStats().TotalConns
		return open < uint32(p.options.PoolSize), open
	})
}

// TestRenew_moved has a name lead to another server while the one before decides: the first new connection replaces all.
func TestRenew_moved(t *testing.T) {
	t.Parallel()
	p := startPairFor(t, "name", false)
	r, reported := p.open(t)
	policy := storetest.DayPolicy(t, "moved", limiter.GCRA, 1_000_000)
	assert.Must(t, take(r, policy))
	p.lead(p.other)
	var group sync.WaitGroup
	assert.Retry(t, "the connections are closed", func() (again bool, seen any) {
		// While it pauses, one connection is not enough, unless this machine was too busy to send all in time.
		do(t, p.old, "client", "pause", "200")
		for range 2 * maxInFlight {
			group.Go(func() {
				if err := take(r, policy); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		left := connectionsOf(t, p.old)
		return len(left) > 0, left
	})
	assert.Must(t, take(r, policy))
	assert.Equal(t, reported.String(), "", "what was reported")
}

// maxInFlight is more batches than a lone connection carries.
const maxInFlight = 32

// TestRenew_closed closes a store while its connections are renewed.
func TestRenew_closed(t *testing.T) {
	t.Parallel()
	p := startPairFor(t, "proxy", false)
	r, _ := p.open(t)
	assert.Must(t, take(r, storetest.DayPolicy(t, "closed", limiter.GCRA, 10)))
	p.proxy.DelayLogins(time.Second)
	assert.Retry(t, "a new connection is made", func() (again bool, seen any) {
		r.Topology.AnyNode.renewal.startBy(0) // on a busy machine the one before may have logged in unseen
		clients := p.proxy.Clients(t)
		return clients < 2, clients
	})
	assert.Must(t, r.Close())
	assert.Retry(t, "all connections are closed", func() (again bool, seen any) { return p.proxy.Clients(t) > 0, p.proxy.Clients(t) })
}

// TestRenew_foreign has the client of another package keep its connections, as docs/go.md says.
func TestRenew_foreign(t *testing.T) {
	t.Parallel()
	r := New(goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1"}), Setup{})
	t.Cleanup(func() { _ = r.Close() })
	assert.ErrorIf(t, r.Topology.AnyNode.renewal != nil, "its connections are renewed")
}

// waitNoConnection waits until a server has no connection but the test's.
func waitNoConnection(t testing.TB, s *redistest.Server) {
	t.Helper()
	assert.Retry(t, "the connections are closed", func() (again bool, seen any) {
		left := connectionsOf(t, s)
		return len(left) > 0, left
	})
}
