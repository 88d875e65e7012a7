package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest/stores"
)

// putFile replaces a file by another one, as Kubernetes and systemd do.
func putFile(t testing.TB, path, text string) {
	t.Helper()
	next := path + ".next"
	assert.Must(t, os.WriteFile(next, []byte(text), 0o600))
	assert.Must(t, os.Rename(next, path))
}

// secretFile returns a file with a password.
func secretFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	putFile(t, path, text)
	return path
}

// logins change the passwords of a user of servers, who is called app.
type logins []*goredis.Client

func loginsAt(t testing.TB, servers ...*redistest.Server) (all logins) {
	t.Helper()
	for _, s := range servers {
		all = append(all, s.Client(t))
	}
	all.do(t, "acl", "setuser", "app", "on", ">first", "~*", "+@all")
	return all
}

func (l logins) do(t testing.TB, command ...any) {
	t.Helper()
	for _, client := range l {
		assert.Must(t, client.Do(context.Background(), command...).Err())
	}
}

// openWith returns a store of options, and how many refused logins it reports, which must be of the kind. An outage
// fails the test.
func openWith(t testing.TB, o dial.Connection, kind string) (r *redis.Store, refused *atomic.Int32) {
	t.Helper()
	refused = new(atomic.Int32)
	o.Timeout = stores.Patience
	r = stores.OpenStore(t, o, redis.Setup{
		KeyFormat: limiter.KeyFormat{Prefix: "rl"},
		OnRefusedLogin: func(err error) {
			if refused.Add(1); limiter.Kind(err) != kind {
				t.Errorf("kind %s of %v, want %s", limiter.Kind(err), err, kind)
			}
		},
		OnOutage: func(err error) { t.Errorf("the breaker has opened: %v", err) },
	})
	return r, refused
}

// crowd has many clients decide at once. All of them must be decided.
func crowd(t testing.TB, r *redis.Store, clients, each int) {
	t.Helper()
	p := storetest.DayPolicy(t, "crowd", limiter.GCRA, 1_000_000)
	storetest.InParallel(clients, func(i int) {
		for range each {
			if _, err := r.Decide(context.Background(), []limiter.Check{{Policy: p, Key: limiter.EncodeKey(fmt.Sprint(i)), Weight: 1}}); err != nil {
				t.Error(err)
			}
		}
	})
}

// crowdAfter has a few clients decide, and after a change many, which want more connections. It returns how many were
// open before and are open now.
func crowdAfter(t testing.TB, r *redis.Store, change func()) (before, now uint32) {
	t.Helper()
	crowd(t, r, 2, 20)
	before = r.Client().PoolStats().TotalConns
	change()
	crowd(t, r, 64, 20)
	return before, r.Client().PoolStats().TotalConns
}

// slowly returns an address at which a server answers late, so that its clients open more connections.
func slowly(t testing.TB, server *redistest.Server) string {
	t.Helper()
	proxy := redistest.NewProxy(t, server.Addr)
	proxy.Delay(10 * time.Millisecond)
	return proxy.Addr
}

// kindsOfRedis start each kind of Redis. They return how to reach it, and its masters.
var kindsOfRedis = map[string]func(t *testing.T) (dial.Connection, []*redistest.Server){
	"standalone": func(t *testing.T) (dial.Connection, []*redistest.Server) {
		server := redistest.Start(t)
		return dial.Connection{Addresses: []string{server.Addr}}, []*redistest.Server{server}
	},
	"cluster": func(t *testing.T) (dial.Connection, []*redistest.Server) {
		masters := redistest.StartCluster(t)
		return dial.Connection{Mode: dial.Cluster, Addresses: []string{masters[0].Addr}}, masters
	},
	"sentinel": func(t *testing.T) (dial.Connection, []*redistest.Server) {
		master := redistest.Start(t)
		sentinel := redistest.StartSentinel(t, master, "main")
		return dial.Connection{Mode: dial.Sentinel, Master: "main", Addresses: []string{sentinel.Addr}}, []*redistest.Server{master}
	},
}

// TestRedis_credentials rotates a password while connections are replaced, on each kind of Redis.
func TestRedis_credentials(t *testing.T) {
	t.Parallel()
	for name, begin := range kindsOfRedis {
		t.Run(name, func(t *testing.T) {
			o, servers := begin(t)
			app := loginsAt(t, servers...)
			file := secretFile(t, "first\n")
			o.Username, o.Credentials = "app", credentials.File(file)
			r, refused := openWith(t, o, "auth")
			crowd(t, r, 16, 10)
			app.do(t, "acl", "setuser", "app", ">second")
			putFile(t, file, "second\n")
			app.do(t, "acl", "setuser", "app", "<first")
			crowd(t, r, 16, 10)
			app.do(t, "client", "kill", "user", "app")
			crowd(t, r, 16, 10)
			assert.Equal(t, refused.Load(), 0, "the number of refused logins")
		})
	}
}

// openSlowly returns a store on a server that answers late, with the user's password in a file.
func openSlowly(t *testing.T) (r *redis.Store, refused *atomic.Int32, app logins, file string) {
	t.Helper()
	server := redistest.Start(t)
	app, file = loginsAt(t, server), secretFile(t, "first")
	r, refused = openWith(t, dial.Connection{Addresses: []string{slowly(t, server)}, Username: "app", Credentials: credentials.File(file)}, "auth")
	return r, refused, app, file
}

// TestRedis_credentials_late changes the password in Redis before the file. More clients want more
// connections, which are refused.
func TestRedis_credentials_late(t *testing.T) {
	t.Parallel()
	r, refused, app, file := openSlowly(t)
	before, _ := crowdAfter(t, r, func() { app.do(t, "acl", "setuser", "app", ">second", "<first") })
	assert.ErrorIf(t, refused.Load() == 0, "no login was refused: the test has tried nothing")
	assert.Must(t, os.Remove(file))
	putFile(t, file, "second")
	assert.Retry(t, "new connections open", func() (again bool, seen any) {
		crowd(t, r, 64, 5)
		got := r.Client().PoolStats().TotalConns
		return got <= before+1, fmt.Sprintf("%d connections", got)
	})
}

// TestRedis_credentials_unreadable removes the file while connections work. New ones use the last password.
func TestRedis_credentials_unreadable(t *testing.T) {
	r, refused, _, file := openSlowly(t)
	before, now := crowdAfter(t, r, func() { assert.Must(t, os.Remove(file)) })
	assert.ErrorIf(t, now <= before || refused.Load() > 0, "%d connections, %d before; %d were refused", now, before, refused.Load())
}

// TestRedis_sentinels_down ends the only sentinel while connections to the master work. More clients want
// more connections, whose address no sentinel gives.
func TestRedis_sentinels_down(t *testing.T) {
	sentinel := redistest.StartSentinel(t, &redistest.Server{Addr: slowly(t, redistest.Start(t))}, "main")
	r, refused := openWith(t, dial.Connection{Mode: dial.Sentinel, Master: "main", Addresses: []string{sentinel.Addr}}, "refused")
	crowdAfter(t, r, sentinel.Kill)
	assert.ErrorIf(t, refused.Load() == 0, "no connection was refused: the test has tried nothing")
}

// TestRedis_sentinel_credentials rotates the sentinels' password, and has the client ask them anew.
func TestRedis_sentinel_credentials(t *testing.T) {
	for name, user := range map[string]string{"default user": "", "named user": "watcher"} {
		t.Run(name, func(t *testing.T) {
			master := redistest.Start(t)
			app := loginsAt(t, master)
			sentinel := redistest.StartSentinel(t, master, "main")
			ctx, at := context.Background(), sentinel.Client(t).Conn()
			t.Cleanup(func() { _ = at.Close() })
			set := func(words ...any) {
				t.Helper()
				who := user
				if who == "" {
					who = "default"
				}
				err := at.Do(ctx, append([]any{"acl", "setuser", who}, words...)...).Err()
				if redis.IsUnknownCommand(err) || err != nil && strings.Contains(err.Error(), "'&*'") {
					t.Skip("sentinels have users, and users have channels, since Redis 6.2")
				}
				assert.Must(t, err)
			}
			set("reset", "on", ">old", "~*", "&*", "+@all")
			if user != "" {
				assert.Must(t, at.Do(ctx, "acl", "setuser", "default", "resetpass").Err())
			}
			file := secretFile(t, "old\n")
			r, refused := openWith(t, dial.Connection{
				Mode: dial.Sentinel, Master: "main", Addresses: []string{sentinel.Addr}, Username: "app",
				Credentials: credentials.File(secretFile(t, "first")), SentinelUsername: user, SentinelCredentials: credentials.File(file),
			}, "auth")
			crowd(t, r, 8, 5)
			set(">new")
			putFile(t, file, "new\n")
			set("<old")
			assert.Must(t, at.Do(ctx, "client", "kill", "skipme", "yes").Err())
			app.do(t, "client", "kill", "user", "app")
			crowd(t, r, 8, 5)
			assert.Equal(t, refused.Load(), 0, "the number of refused logins")
		})
	}
}

// TestRedis_unknown_master has sentinels that watch no master of the name. Their reply is nil, which must not pass
// for one of Redis.
func TestRedis_unknown_master(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, redistest.Start(t), "main")
	r := stores.OpenStore(t, dial.Connection{Mode: dial.Sentinel, Master: "mian", Addresses: []string{sentinel.Addr}, Timeout: stores.Patience}, redis.Setup{KeyFormat: limiter.KeyFormat{Prefix: "rl"}})
	ctx, p := context.Background(), storetest.HourBan(t, "p", 1)
	_, decided := r.Decide(ctx, []limiter.Check{{Policy: p, Key: limiter.EncodeKey("k")}})
	_, ran := r.Command(ctx, 1, "get", "k")
	_, inspected := r.Inspect(ctx, p, limiter.EncodeKey("k"))
	for name, err := range map[string]error{"Decide": decided, "Command": ran, "Inspect": inspected} {
		assert.ErrorIf(t, !errors.Is(err, limiter.ErrUndecided) || !strings.Contains(err.Error(), "the sentinels know no master of this name"),
			"%s: %v", name, err)
	}
}
