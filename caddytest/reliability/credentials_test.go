package reliability

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// The passwords of these tests, which nothing may show.
const (
	firstPassword  = "first-credential"
	secondPassword = "second-credential"
)

// mountedFile is a file as Kubernetes mounts a secret: a link into a folder that is replaced as a whole.
type mountedFile struct {
	path string
	dir  string
	n    int
}

// mountFirst mounts the first password.
func mountFirst(t *testing.T) *mountedFile {
	t.Helper()
	m := &mountedFile{dir: t.TempDir()}
	m.path = filepath.Join(m.dir, "password")
	assert.Must(t, os.Symlink(filepath.Join("..data", "password"), m.path))
	m.replace(t, firstPassword)
	return m
}

// replace swaps the folder at once.
func (m *mountedFile) replace(t *testing.T, text string) {
	t.Helper()
	m.n++
	folder, next := fmt.Sprint("..", m.n), filepath.Join(m.dir, "..next")
	assert.Must(t, os.Mkdir(filepath.Join(m.dir, folder), 0o700))
	assert.Must(t, os.WriteFile(filepath.Join(m.dir, folder, "password"), []byte(text+"\n"), 0o600))
	assert.Must(t, os.Symlink(folder, next))
	assert.Must(t, os.Rename(next, filepath.Join(m.dir, "..data")))
}

// appUser is the ACL user of the node under test.
type appUser struct{ admin *redis.Client }

func newAppUser(t *testing.T, server *redistest.Server) appUser {
	t.Helper()
	u := appUser{server.Client(t)}
	u.set(t, "on", ">"+firstPassword, "~*", "+@all")
	return u
}

// set changes the user.
func (u appUser) set(t *testing.T, rules ...any) {
	t.Helper()
	assert.Must(t, u.admin.Do(context.Background(), append([]any{"acl", "setuser", "app"}, rules...)...).Err())
}

// connections returns the IDs of the user's connections.
func (u appUser) connections(t *testing.T) (ids []string) {
	t.Helper()
	for line := range strings.Lines(u.admin.ClientList(context.Background()).Val()) {
		if id := clientOfApp.FindStringSubmatch(line); id != nil {
			ids = append(ids, id[1])
		}
	}
	return ids
}

var clientOfApp = regexp.MustCompile(`^id=(\d+) .* user=app\s`)

// disconnect ends all of the user's connections and waits until Redis has closed them. It returns how many
// there were. Those that carry a request would lose its reply.
func (u appUser) disconnect(t *testing.T) int {
	t.Helper()
	ended := u.connections(t)
	assert.Must(t, u.admin.Do(context.Background(), "client", "kill", "user", "app").Err())
	assert.Retry(t, "the connections are closed", func() (again bool, seen any) {
		open := u.connections(t)
		return slices.ContainsFunc(open, func(id string) bool { return slices.Contains(ended, id) }), open
	})
	return len(ended)
}

// startApp runs Caddy on a Redis 10 ms away, which takes several connections, as the user of a password's file.
func startApp(t *testing.T) (*caddytest.Node, appUser, *mountedFile, *redistest.Proxy) {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t)
	user, file, proxy := newAppUser(t, server), mountFirst(t), redistest.NewProxy(t, server.Addr)
	proxy.Delay(10 * time.Millisecond)
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\ntimeout 10s\nredis {\naddress "+proxy.Addr+"\nusername app\ncredentials file {env.CREDENTIALS_DIRECTORY}/password\n}\n}",
		steadySite), "CREDENTIALS_DIRECTORY="+filepath.Dir(file.path))
	caddytest.WaitForRedis(t, n, "/")
	return n, user, file, proxy
}

// disconnect ends the user's connections and waits until that has arrived. It returns their number.
func disconnect(t *testing.T, user appUser, proxy *redistest.Proxy) int {
	t.Helper()
	ended := user.disconnect(t)
	assert.Retry(t, "the ends have arrived", func() (again bool, seen any) {
		left := proxy.Clients(t)
		if left > 0 {
			user.disconnect(t) // what a poll has opened meanwhile
		}
		return left > 0, left
	})
	return ended
}

// steadySite never uses its quota up.
const steadySite = "redis_ratelimit same 1000000 24h" + caddytest.ShowDecision

// checkAllByRedis has a crowd send requests, all of which Redis must decide.
func checkAllByRedis(t *testing.T, n *caddytest.Node, clients, each int) {
	t.Helper()
	if elsewhere := caddytest.DecidedElsewhere(t, n, clients, each); elsewhere > 0 {
		errors := strings.Join(regexp.MustCompile(`(?m)^caddy_redis_ratelimit_store_errors_total.*$`).FindAllString(n.Send(t, "GET", n.Admin+"/metrics", "").Body, -1), "\n")
		t.Errorf("%d of %d requests were decided elsewhere\n%s\n%v", elsewhere, clients*each, errors, n.Log.Lines(caddytest.Ours))
	}
}

// refusals returns the lines about new connections that cannot log in while older ones work.
func refusals(n *caddytest.Node) []caddytest.LogLine {
	return n.Log.Lines(func(l caddytest.LogLine) bool {
		return l.Logger == "redis_ratelimit" && l.Level == "warn" && strings.HasPrefix(l.Message, "new connections to redis cannot log in;")
	})
}

func checkPasswordsHidden(t *testing.T, n *caddytest.Node) {
	t.Helper()
	for place, text := range map[string]string{
		"the log": n.Log.String(), "/config/": n.Send(t, "GET", n.Admin+"/config/", "").Body,
		"policies": n.Send(t, "GET", n.Admin+"/redis_ratelimit/policies", "").Body,
	} {
		caddytest.CheckHidden(t, place, text, firstPassword)
		caddytest.CheckHidden(t, place, text, secondPassword)
	}
}

// TestCredentials_rotation rotates the password in traffic that does not pause. Then all connections end between
// two requests, so that each has to log in again.
func TestCredentials_rotation(t *testing.T) {
	n, user, file, proxy := startApp(t)
	stop := n.Meanwhile(t, "/", func(a caddytest.Response) bool { return a.Body == "allowed redis" })
	checkAllByRedis(t, n, 32, 5)
	user.set(t, ">"+secondPassword)
	file.replace(t, secondPassword)
	user.set(t, "<"+firstPassword)
	checkAllByRedis(t, n, 32, 5)
	sent := stop()
	ended := disconnect(t, user, proxy)
	checkAllByRedis(t, n, 64, 5)
	opened := len(user.connections(t))
	assert.ErrorIf(t, ended < 2 || opened < 2, "%d connections ended and %d new ones are open; want several", ended, opened)
	t.Logf("%d requests of one client and 640 of crowds; %d connections ended, %d new ones", sent, ended, opened)
	assert.ErrorIf(t, len(n.Log.Outages())+len(refusals(n)) > 0, "the log has %v %v", n.Log.Outages(), refusals(n))
	n.CheckMetric(t, `store_errors_total{kind="auth"}`, 0)
	checkPasswordsHidden(t, n)
}

// TestCredentials_lateFile changes the password in Redis before the file.
func TestCredentials_lateFile(t *testing.T) {
	n, user, file, _ := startApp(t)
	user.set(t, ">"+secondPassword, "<"+firstPassword)
	assert.Retry(t, "a crowd takes a new connection", func() (again bool, seen any) {
		checkAllByRedis(t, n, 64, 5)
		return len(refusals(n)) == 0, "no refusal"
	})
	lines := refusals(n)
	assert.ErrorIf(t, len(lines) != 1 || !strings.Contains(lines[0].Text, `"kind":"auth"`) || len(n.Log.Outages()) > 0, "the log has the refusals %v and outages %v; want one refusal", lines, n.Log.Outages())
	assert.ErrorIf(t, n.Metric(t, `store_errors_total{kind="auth"}`) == 0, "no refusal is counted")
	n.CheckMetric(t, "breaker_open", 0)

	user.disconnect(t) // now no older connection works
	assert.Retry(t, "the breaker opens", func() (again bool, seen any) {
		a := n.Get(t, "/")
		return a.Body != "allowed fallback" || len(n.Log.Outages()) == 0, a
	})
	n.CheckMetric(t, "breaker_open", 1)
	file.replace(t, secondPassword)
	caddytest.WaitForRedis(t, n, "/")
	caddytest.CheckOutageLog(t, n)
	checkPasswordsHidden(t, n)
}

// TestCredentials_lostFile removes the file while connections end and open.
func TestCredentials_lostFile(t *testing.T) {
	n, user, file, proxy := startApp(t)
	stale := func(want float64) {
		t.Helper()
		assert.Retry(t, fmt.Sprint("credentials_stale is ", want), func() (again bool, seen any) {
			got := n.Metric(t, "credentials_stale")
			return got != want, got
		})
	}
	assert.Must(t, os.Remove(file.path))
	stale(1)
	disconnect(t, user, proxy)
	checkAllByRedis(t, n, 64, 5)
	assert.Must(t, os.Symlink(filepath.Join("..data", "password"), file.path))
	stale(0)
	lines := n.Log.Lines(func(l caddytest.LogLine) bool { return strings.HasPrefix(l.Message, "credentials ") })
	assert.ErrorIf(t, len(lines) != 2 || len(n.Log.Outages()) > 0, "the log has %v and the outages %v; want two lines", lines, n.Log.Outages())
	checkPasswordsHidden(t, n)
}

// TestCredentials_lostUser takes the user's permissions away, which no older connection outlives.
func TestCredentials_lostUser(t *testing.T) {
	n, user, _, _ := startApp(t)
	user.set(t, "-@all")
	n.Get(t, "/").Want(t, 0, "allowed fallback")
	n.CheckMetric(t, "breaker_open", 1) // after one request
	assert.Equal(t, len(refusals(n)), 0, "the number of refusals in the log")
}

// TestCredentials_sentinel rotates the passwords of sentinel and master.
func TestCredentials_sentinel(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	user := newAppUser(t, master)
	sentinel := redistest.StartSentinel(t, master, "main")
	ctx, guard := context.Background(), sentinel.Client(t).Conn()
	t.Cleanup(func() { _ = guard.Close() })
	skipBefore(t, guard.Do(ctx, "acl", "setuser", "default", "resetpass", ">"+firstPassword).Err(), "6.2")
	passwords, guards := mountFirst(t), mountFirst(t)
	option := "redis {\nmode sentinel\nmaster main\naddress " + sentinel.Addr + "\nusername app\ncredentials file " + passwords.path + "\nsentinel_credentials file " + guards.path + "\n}"
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\ntimeout 10s\n"+option+"\n}", steadySite))
	caddytest.WaitForRedis(t, n, "/")
	assert.Must(t, guard.Do(ctx, "acl", "setuser", "default", ">"+secondPassword).Err())
	user.set(t, ">"+secondPassword)
	passwords.replace(t, secondPassword)
	guards.replace(t, secondPassword)
	assert.Must(t, guard.Do(ctx, "acl", "setuser", "default", "<"+firstPassword).Err())
	user.set(t, "<"+firstPassword)
	assert.Must(t, guard.Do(ctx, "client", "kill", "skipme", "yes").Err())
	user.disconnect(t)
	checkAllByRedis(t, n, 8, 10)
	assert.Equal(t, n.Log.Outages(), nil, "the log of outages")
	checkPasswordsHidden(t, n)
	check(t, 0, option, caddytest.LimitedSite, "no failed")
	guards.replace(t, firstPassword)
	check(t, failing, option, caddytest.LimitedSite, "reachable failed: WRONGPASS",
		"reachable failed: change sentinel_username and sentinel_password")
}

// TestCredentials_certificates replaces both sides' certificates and their authority.
func TestCredentials_certificates(t *testing.T) {
	t.Parallel()
	old, next := redistest.NewAuthority(t), redistest.NewAuthority(t)
	address, args := old.ServeTLS(t)
	server := redistest.Start(t, append(args, "--tls-auth-clients", "yes")...)
	user := newAppUser(t, server)
	dir := t.TempDir()
	install := func(a *redistest.Authority) {
		cert, key := a.Issue(t, "client")
		for name, from := range map[string]string{"ca": a.CA, "cert": cert, "key": key} {
			text, err := os.ReadFile(from)
			assert.Must(t, err)
			assert.Must(t, os.WriteFile(filepath.Join(dir, "next"), text, 0o600))
			assert.Must(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, name)))
		}
	}
	install(old)
	proxy := redistest.NewProxy(t, address)
	proxy.Delay(10 * time.Millisecond) // takes several connections
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\ntimeout 10s\nredis {\naddress "+proxy.Addr+"\nusername app\npassword "+firstPassword+"\ntls {\nca "+dir+"/ca\ncert "+dir+"/cert\nkey "+dir+"/key\n}\n}\n}",
		steadySite))
	caddytest.WaitForRedis(t, n, "/")
	before := user.connections(t)
	cert, key := next.Issue(t, "redis.test")
	skipBefore(t, user.admin.Do(context.Background(), "config", "set", "tls-ca-cert-file", next.CA, "tls-cert-file", cert, "tls-key-file", key).Err(), "7.0")
	assert.Retry(t, "a new connection is refused", func() (again bool, seen any) {
		checkAllByRedis(t, n, 64, 10)
		return len(refusals(n)) == 0, "none yet" // on a busy machine the open connections may suffice
	})
	assert.Equal(t, len(refusals(n)), 1, "the number of refusals in the log, with the old certificates,")
	install(next)
	assert.Retry(t, "there are new connections", func() (again bool, seen any) {
		checkAllByRedis(t, n, 64, 5)
		after := user.connections(t)
		return len(after) <= len(before)+1, fmt.Sprintf("%d connections, before %d", len(after), len(before))
	})
	assert.Equal(t, n.Log.Outages(), nil, "the log of outages")
}

// TestCredentials_reload reloads while the file's content changes. The connections stay.
func TestCredentials_reload(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	user, file := newAppUser(t, server), mountFirst(t)
	text := func(limit string) string {
		option := "redis {\naddress " + server.Addr + "\nusername app\ncredentials file " + file.path + "\n}"
		return caddytest.Config("redis_ratelimit {\ntimeout 10s\n"+option+"\n}", "redis_ratelimit same "+limit+" 24h"+caddytest.ShowDecision)
	}
	n := caddytest.Start(t, text("1000"))
	caddytest.WaitForRedis(t, n, "/")
	before := user.connections(t)
	file.replace(t, secondPassword)
	n.Reload(t, text("2000"))
	caddytest.WaitForRedis(t, n, "/")
	after := user.connections(t) // of the same store, which may open more
	for _, id := range before {
		assert.ErrorIf(t, !slices.Contains(after, id), "connection %s is closed; open are %v", id, after)
	}
}

// TestCredentials_refusedFiles loads configurations whose files hold no password.
func TestCredentials_refusedFiles(t *testing.T) {
	n := caddytest.InProcess(t, "redis_ratelimit same 3 24h"+caddytest.ShowDecision)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		assert.Must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	assert.Must(t, syscall.Mkfifo(pipe, 0o600))
	long := write("long", string(bytes.Repeat([]byte(firstPassword), 5000)))
	for name, c := range map[string]struct{ option, want string }{
		"missing":            {"credentials file " + dir + "/none", "credentials: reading " + dir + "/none: no such file"},
		"a folder":           {"credentials file " + dir, "credentials: reading " + dir + ": is a directory"},
		"empty":              {"credentials file " + write("empty", "\n"), "credentials: " + dir + "/empty is empty; write the password into it"},
		"another file":       {"credentials file " + long, "credentials: " + long + " is longer than 65536 bytes"},
		"of the sentinels":   {"mode sentinel\nmaster m\nsentinel_credentials file " + dir + "/none", "sentinel_credentials: reading " + dir + "/none: no such file"},
		"a placeholder":      {"credentials file {env.NO_SUCH_PATH}", "credentials: path: the placeholder {env.NO_SUCH_PATH} is unknown or empty"},
		"a secret":           {"credentials file " + firstPassword, "credentials: reading the file: no such file or directory; name an existing file by an absolute path"},
		"a secret in base64": {"mode sentinel\nmaster m\nsentinel_credentials file /c2Vj/" + firstPassword, "sentinel_credentials: reading the file: no such file or directory"},
		"a pipe":             {"credentials file " + pipe, "credentials: reading " + pipe + ": it is no regular file"},
		"a URL":              {"credentials file redis://:" + firstPassword + "@127.0.0.1", "credentials: use the path of a file"},
	} {
		a := n.Load(t, caddytest.Config("redis_ratelimit {\nredis {\naddress 127.0.0.1:1\n"+c.option+"\n}\n}", "redis_ratelimit same 3 24h"))
		assert.ErrorIf(t, a.Status != http.StatusBadRequest || !strings.Contains(a.Body, c.want) || strings.Contains(a.Body, firstPassword), "%s: got %v; want status 400 and %q", name, a, c.want)
	}
	check(t, 2, "redis {\naddress 127.0.0.1:1\ncredentials file "+dir+"/none\n}", caddytest.LimitedSite,
		"configuration failed: credentials: reading "+dir+"/none")
	both := strings.Replace(`{"admin": {"listen": "ADMIN"}, "apps": {"redis_ratelimit": {"redis": {"url": "redis://127.0.0.1:1", "credentials": {"source": "file", "path": "/x"}}}}}`, "ADMIN", strings.TrimPrefix(n.Admin, "http://"), 1)
	n.Load(t, both, "Content-Type: application/json").Want(t, http.StatusBadRequest, "*url: has address, user, password*") // a URL and a file
}

// skipBefore skips the rest of a test where the server does not have a command that came with a version of Redis.
func skipBefore(t *testing.T, err error, version string) {
	t.Helper()
	if err != nil && strings.HasPrefix(strings.ToLower(err.Error()), "err unknown ") {
		t.Skip("Redis can do this since " + version)
	}
	assert.Must(t, err)
}
