// Package redis tests every way to connect to Redis, the rights that the module needs there, and the check of a Redis.
package reliability

import (
	"context"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// variant is a way to connect to Redis.
type variant struct {
	options string        // of the global option
	env     []string      // of Caddy's process
	client  *redis.Client // for the database with the counts
	keys    string        // matches the names of all keys; empty: usualKeys
}

// usualKeys matches the Redis keys of policy "default" and client "jane".
const usualKeys = `^rl:\{jane\}:default:c1d$`

func variants(t *testing.T) map[string]func(t *testing.T) variant {
	t.Helper()
	all := map[string]func(t *testing.T) variant{
		"unix socket": socketVariant,
		"unix socket by URL": func(t *testing.T) variant {
			v := socketVariant(t)
			v.options = "redis unix://" + strings.Fields(v.options)[3] + "?db=0"
			return v
		},
		"password in a URL": func(t *testing.T) variant {
			s := startLocked(t)
			return variant{options: "redis redis://:{env.REDIS_PASSWORD}@" + s.Addr, env: []string{"REDIS_PASSWORD=" + caddytest.Password}, client: withPassword(t, s)}
		},
		"password in a block": func(t *testing.T) variant {
			s := startLocked(t)
			return variant{options: "redis {\naddress " + s.Addr + "\npassword {env.REDIS_PASSWORD}\n}", env: []string{"REDIS_PASSWORD=" + caddytest.Password}, client: withPassword(t, s)}
		},
		"rediss with the system's authorities": func(t *testing.T) variant {
			authority, address, s := startTLS(t)
			return variant{options: "redis rediss://" + address, env: []string{"SSL_CERT_FILE=" + authority.CA}, client: s.Client(t)}
		},
		"tls with ca and server_name": func(t *testing.T) variant {
			authority, address, s := startTLS(t)
			return variant{options: "redis {\naddress " + address + "\ntls {\nca {env.CA}\nserver_name redis.test\n}\n}", env: []string{"CA=" + authority.CA}, client: s.Client(t)}
		},
		"mutual TLS": func(t *testing.T) variant {
			authority, address, s := startTLS(t, "--tls-auth-clients", "yes")
			cert, key := authority.Issue(t, "caddy.test")
			return variant{options: "redis {\naddress " + address + "\ntls {\nca " + authority.CA + "\ncert " + cert + "\nkey " + key + "\n}\n}", client: s.Client(t)}
		},
		"sentinel": func(t *testing.T) variant {
			master := startLocked(t)
			sentinel := redistest.StartSentinel(t, master, "main", "requirepass sentinel-secret", `sentinel auth-pass main "`+strings.ReplaceAll(strings.ReplaceAll(caddytest.Password, `\`, `\\`), `"`, `\"`)+`"`)
			return variant{
				options: "redis {\nmode sentinel\nmaster main\naddress " + sentinel.Addr + "\npassword {env.REDIS_PASSWORD}\nsentinel_password {env.SENTINEL_PASSWORD}\n}",
				env:     []string{"REDIS_PASSWORD=" + caddytest.Password, "SENTINEL_PASSWORD=sentinel-secret"}, client: withPassword(t, master),
			}
		},
	}
	plain := redistest.Start(t)
	url, block := "redis redis://"+plain.Addr, "redis {\naddress "+plain.Addr+"\n"
	on := func(db int) *redis.Client { return connect(t, &redis.Options{Addr: plain.Addr, DB: db}) }
	for name, v := range map[string]variant{
		"a URL":                 {options: url, client: on(0)},
		"an address":            {options: block + "}", client: on(0)},
		"database 3":            {options: url + "/3", client: on(3)},
		"database 4 in a block": {options: block + "db 4\n}", client: on(4)},
		"key_prefix":            {options: url + "\nkey_prefix shop:eu", client: on(0), keys: `^shop:eu:\{jane\}:default:c1d$`},
		"hash_keys": {
			options: url + "\nhash_keys {env.SECRET}", env: []string{"SECRET=pepper"}, client: on(0),
			keys: `^rl:\{%~[0-9a-f]{32,64}\}:default:c1d$`,
		},
	} {
		all[name] = func(*testing.T) variant { return v }
	}
	return all
}

// startTLS starts a server that listens with TLS at an address of its own.
func startTLS(t *testing.T, options ...string) (authority *redistest.Authority, address string, server *redistest.Server) {
	t.Helper()
	authority = redistest.NewAuthority(t)
	address, args := authority.ServeTLS(t)
	return authority, address, redistest.Start(t, append(args, options...)...)
}

func socketVariant(t *testing.T) variant {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "r.sock")
	s := redistest.Start(t, "--unixsocket", socket)
	return variant{options: "redis {\naddress " + socket + "\n}", client: s.Client(t)}
}

func withPassword(t *testing.T, s *redistest.Server) *redis.Client {
	t.Helper()
	return connect(t, &redis.Options{Addr: s.Addr, Password: caddytest.Password})
}

func connect(t *testing.T, options *redis.Options) *redis.Client {
	t.Helper()
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestRedis_variants(t *testing.T) {
	t.Parallel()
	for name, prepare := range variants(t) {
		t.Run(name, func(t *testing.T) {
			v := prepare(t)
			ctx := t.Context()
			assert.Must(t, v.client.FlushDB(ctx).Err())
			n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\ntimeout 10s\n"+v.options+"\n}", "redis_ratelimit {header.User} 3 24h"+caddytest.ShowDecision), v.env...)
			a := n.Spend(t, "/", "redis", 3, "User: jane")
			assert.ErrorIf(t, !a.DeniedByRedis(), "got %v; want it denied by redis", a)
			checkKeys(t, v)
			caddytest.CheckSecrets(t, n, v.env)
		})
	}
}

// checkKeys checks the names of all Redis keys, and that each has a TTL.
func checkKeys(t *testing.T, v variant) {
	t.Helper()
	names, err := v.client.Keys(context.Background(), "*").Result()
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, ":{%!overrides}:marker") })
	assert.FatalIf(t, err != nil || len(names) != 1, "Redis has the keys %q, error %v; want one", names, err)
	want := v.keys
	if want == "" {
		want = usualKeys
	}
	assert.ErrorIf(t, !regexp.MustCompile(want).MatchString(names[0]), "the key is called %q, want %s", names[0], want)
	if ttl, err := v.client.TTL(context.Background(), names[0]).Result(); err != nil || ttl <= 0 {
		t.Errorf("the key has TTL %v, error %v", ttl, err)
	}
}

// TestRedis_cluster spreads many clients over the slots, each with two policies whose keys lie in different ones.
func TestRedis_cluster(t *testing.T) {
	t.Parallel()
	masters := redistest.StartCluster(t)
	addresses := make([]string, len(masters))
	for i, m := range masters {
		addresses[i] = m.Addr
	}
	site := "redis_ratelimit {\npolicy user {\nkey {header.User}\nlimit 2\nwindow 24h\n}\npolicy everybody {\nkey all\nlimit 1000\nwindow 24h\n}\n}"
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\ntimeout 10s\nredis {\nmode cluster\naddress "+strings.Join(addresses[:2], " ")+"\n}\n}", site+caddytest.ShowDecision))
	for i := range 50 {
		user := "User: user-" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		for range 2 {
			n.Get(t, "/", user).Want(t, 0, "allowed redis")
		}
		a := n.Get(t, "/", user)
		assert.FatalIf(t, !a.DeniedByRedis(), "got %v; want it denied by redis", a)
	}
	caddytest.CheckQuota(t, n.Get(t, "/", "User: last"), 2, 1) // the tighter policy, compared with 1000-101 of 1000
	used := 0
	for _, m := range masters {
		if size, err := m.Client(t).DBSize(t.Context()).Result(); err == nil && size > 5 {
			used++
		}
	}
	assert.ErrorIf(t, used != len(masters), "only %d of the masters hold counts", used)
}

// TestRedis_sentinelUnknownMaster has a sentinel without the named master.
func TestRedis_sentinelUnknownMaster(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, redistest.Start(t), "main")
	_, port, err := net.SplitHostPort(sentinel.Addr)
	assert.Must(t, err)
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\nredis {\nmode sentinel\nmaster other\naddress 127.0.0.1:"+port+"\n}\n}", "redis_ratelimit same 3 24h"+caddytest.ShowDecision))
	n.Get(t, "/").Want(t, 200, "allowed fallback")
}

// startLocked starts a server with the password. It is set by a command: Valkey 8.1 misreads quotation marks in
// its arguments.
func startLocked(t *testing.T) *redistest.Server {
	t.Helper()
	s := redistest.Start(t)
	assert.Must(t, s.Client(t).ConfigSet(t.Context(), "requirepass", caddytest.Password).Err())
	return s
}
