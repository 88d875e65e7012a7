package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// tokens provide logins of users that exist for a while, as a cloud's tokens do: each rotation makes another user,
// and deletes the one before as soon as no connection is its own. Redis ends connections of a deleted user.
type tokens struct {
	logins logins
	ends   time.Duration // 0: unknown

	mu     sync.Mutex
	number int
	fails  error
}

// newTokens returns the first login of servers, with all rights.
func newTokens(t *testing.T, ends time.Duration, servers ...*redistest.Server) *tokens {
	t.Helper()
	p := &tokens{ends: ends}
	for _, s := range servers {
		p.logins = append(p.logins, s.Client(t))
	}
	p.logins.do(t, "acl", "setuser", "app0", "on", ">secret0", "~*", "+@all")
	return p
}

// fail has the provider fail by an error, or work again.
func (p *tokens) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails = err
}

// user returns the name and the password of a rotation.
func (p *tokens) user() (name, password string) {
	return fmt.Sprint("app", p.number), fmt.Sprint("secret", p.number)
}

func (p *tokens) Login(context.Context) (credentials.Login, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	login := credentials.Login{}
	login.Username, login.Password = p.user()
	if p.ends > 0 {
		login.End = time.Now().Add(p.ends)
	}
	return login, p.fails
}

func (p *tokens) Identity() string { return "" }

// rotate makes another user, and deletes the one before once all connections have left it.
func (p *tokens) rotate(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	before, _ := p.user()
	p.number++
	name, password := p.user()
	p.logins.do(t, "acl", "setuser", name, "on", ">"+password, "~*", "-@all", "+ping", "+evalsha", "+eval", "+time", "+get", "+set", "+cluster|slots", "+command")
	p.mu.Unlock()
	assert.Retry(t, "no connection is of "+before, func() (again bool, seen any) {
		lists := p.logins.ask(t, "client", "list")
		return strings.Contains(lists, "user="+before+" "), lists
	})
	p.logins.do(t, "acl", "deluser", before)
}

// ask returns the replies of all servers.
func (l logins) ask(t testing.TB, command ...any) string {
	t.Helper()
	var all strings.Builder
	for _, client := range l {
		text, err := client.Do(context.Background(), command...).Text()
		assert.Must(t, err)
		all.WriteString(text)
	}
	return all.String()
}

// sum returns what a field of INFO is on all servers together.
func (l logins) sum(t testing.TB, section, field string) (sum int) {
	t.Helper()
	for _, client := range l {
		sum += int(redistest.InfoSum(t, client, section, "(?m)^"+field+`(\d+)`))
	}
	return sum
}

// openAll fills the pools of a store's client, so that only the end of a connection makes room for another one. It
// returns how many connections are open. Servers that pause keep each connection busy.
func openAll(t *testing.T, r *redis.Store, servers logins, each int) (all int) {
	t.Helper()
	fill := func(ctx context.Context, client *goredis.Client) (err error) {
		conns := make([]*goredis.Conn, each)
		for i := range conns {
			conns[i] = client.Conn()
			err = errors.Join(err, conns[i].Ping(ctx).Err())
		}
		for _, conn := range conns {
			err = errors.Join(err, conn.Close())
		}
		return err
	}
	switch client := r.Client().(type) {
	case *goredis.ClusterClient:
		assert.Must(t, client.ForEachMaster(t.Context(), fill))
	case *goredis.Client:
		assert.Must(t, fill(t.Context(), client))
	default:
		assert.Retry(t, "all connections are open", func() (again bool, seen any) {
			servers.do(t, "client", "pause", "100")
			storetest.InParallel(each, func(int) { _ = client.Ping(t.Context()) })
			return client.PoolStats().TotalConns < uint32(each), client.PoolStats().TotalConns
		})
	}
	return int(r.Client().PoolStats().TotalConns)
}

// TestRedis_rotating rotates logins under load. No decision fails, no connection is opened for a rotation, and
// each open one logs in again.
func TestRedis_rotating(t *testing.T) {
	for name, begin := range kindsOfRedis {
		for source, ends := range map[string]time.Duration{"without an end": 0, "with an end": 2 * time.Second} {
			t.Run(name+", "+source, func(t *testing.T) {
				t.Parallel()
				o, servers := begin(t)
				p := newTokens(t, ends, servers...)
				o.Credentials, o.PoolSize = p, 6
				o.OnLogin = func(err error) {
					if err != nil {
						t.Errorf("a login failed: %v", err)
					}
				}
				r, refused := openWith(t, o, "auth")
				connections := openAll(t, r, p.logins, o.PoolSize)
				ctx, stop := context.WithCancel(context.Background())
				decided := make(chan int64)
				go func() {
					n := int64(0)
					for ; ctx.Err() == nil; n += 16 * 10 {
						crowd(t, r, 16, 10)
						<-time.After(assert.Rounds(20*time.Millisecond, 0))
					}
					decided <- n
				}()
				auths, accepted := p.logins.sum(t, "commandstats", "cmdstat_auth:calls="), p.logins.sum(t, "stats", "total_connections_received:")
				rotations := assert.Rounds(2, 30)
				for range rotations {
					began := time.Now()
					p.rotate(t)
					if pause := 2*time.Second - time.Since(began); rotations > 2 && pause > 0 {
						<-time.After(pause)
					}
				}
				stop()
				n := <-decided
				auths, accepted = p.logins.sum(t, "commandstats", "cmdstat_auth:calls=")-auths, p.logins.sum(t, "stats", "total_connections_received:")-accepted
				t.Logf("%d rotations over %d connections: %d times AUTH, %d new connections, %d decisions, %d refused logins",
					rotations, connections, auths, accepted, n, refused.Load())
				assert.ErrorIf(t, auths < rotations*connections, "%d times AUTH in %d rotations of %d connections", auths, rotations, connections)
				assert.ErrorIf(t, accepted > 0 || refused.Load() > 0, "%d connections were opened, %d logins refused", accepted, refused.Load())
			})
		}
	}
}

// TestRedis_rotating_without_a_master rotates while one master of a Cluster hangs. The others' connections log in.
func TestRedis_rotating_without_a_master(t *testing.T) {
	t.Parallel()
	masters := redistest.StartCluster(t)
	p := newTokens(t, 0, masters...)
	r, _ := openWith(t, dial.Connection{Mode: dial.Cluster, Addresses: []string{masters[0].Addr}, Credentials: p, PoolSize: 3}, "auth")
	openAll(t, r, p.logins, 3)
	masters[0].Pause(t)
	defer masters[0].Resume(t)
	p.logins = p.logins[1:]
	p.rotate(t)
}

// TestRedis_failing_provider fails while connections open and log in. The last login goes on.
func TestRedis_failing_provider(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := newTokens(t, 0, server)
	outcomes := make(chan error, 100)
	r, refused := openWith(t, dial.Connection{Addresses: []string{server.Addr}, Credentials: p, OnLogin: func(err error) { outcomes <- err }}, "auth")
	crowd(t, r, 2, 20)
	p.fail(errors.New("no such token"))
	p.logins.do(t, "client", "kill", "user", "app0")
	crowd(t, r, 64, 20)
	err := <-outcomes
	for err == nil {
		err = <-outcomes
	}
	assert.Equal(t, err.Error(), "rate limit store could not decide: credentials: no such token", "the outcome")
	p.fail(nil)
	for <-outcomes != nil {
		continue // a login that began before
	}
	assert.Equal(t, refused.Load(), 0, "the number of refused logins")
}
