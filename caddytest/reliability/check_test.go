package reliability

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// finding is a line of the output of 'check'.
type finding struct{ Check, Result, Detail, Advice string }

// failing is any exit code but 0.
const failing = -1

// check runs 'check' on a global option, checks its exit code, and wants findings. Each is written "check result: text",
// where the text is in the detail or the advice. "no result" wants none of that result.
func check(t *testing.T, code int, option, site string, wants ...string) {
	t.Helper()
	checkWith(t, nil, code, option, site, wants...)
}

// checkWith is check with an environment, whose REDIS_PASSWORD nothing shows.
func checkWith(t *testing.T, env []string, code int, option, site string, wants ...string) {
	t.Helper()
	findings, got := findingsOf(t, env, patiently(code, option), site)
	assert.ErrorIf(t, got != code && (code != failing || got == 0), "%s: got exit code %d; want %d", option, got, code)
	for _, want := range wants {
		found := slices.ContainsFunc(findings, func(f finding) bool { return f.is(want) })
		assert.ErrorIf(t, found == strings.HasPrefix(want, "no "), "want %s in %+v", want, findings)
	}
}

// patiently returns an option with a timeout above any delay of a busy machine, if Redis is to answer all that 'check' asks.
func patiently(code int, option string) string {
	if (code == 0 || code == 2) && strings.Contains(option, "redis") && !strings.Contains(option, "timeout ") {
		return "timeout 10s\n" + option
	}
	return option
}

// findingsOf runs 'check' on a global option, and returns what it found and its exit code.
func findingsOf(t *testing.T, env []string, option, site string) (findings []finding, code int) {
	t.Helper()
	e := runCheck(t, env, option, site, "--json")
	if err := json.Unmarshal([]byte(e.Stdout), &findings); err != nil || len(findings) == 0 {
		t.Fatalf("%v: %v", err, e)
	}
	return findings, e.Code
}

// checkTable is checkWith, and has the findings in a table too.
func checkTable(t *testing.T, env []string, code int, option, site string, wants ...string) {
	t.Helper()
	checkWith(t, env, code, option, site, wants...)
	table := runCheck(t, env, patiently(code, option), site)
	assert.ErrorIf(t, table.Code != code || !strings.HasPrefix(table.Stdout, "CHECK "), "the table: %v", table)
}

func runCheck(t *testing.T, env []string, option, site string, flags ...string) caddytest.Ending {
	t.Helper()
	file := caddytest.WriteCaddyfile(t, "{\nredis_ratelimit {\n"+option+"\n}\n}\n:8080 {\n"+site+"\n}\n")
	e := caddytest.RunRatelimit(t, env, append([]string{"check", "--config", file}, flags...)...)
	for _, pair := range env {
		if name, value, _ := strings.Cut(pair, "="); name == "REDIS_PASSWORD" {
			caddytest.CheckHidden(t, "check", e.String(), value)
		}
	}
	return e
}

// is reports whether a finding is as written.
func (f finding) is(want string) bool {
	kind, text, _ := strings.Cut(want, ": ")
	result, isNone := strings.CutPrefix(kind, "no ")
	return isNone && f.Result == result || kind == f.Check+" "+f.Result && strings.Contains(f.Detail+" "+f.Advice, text)
}

func TestCheck_goodRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	checkTable(t, nil, 0, "redis redis://"+server.Addr+"/3\ntimeout 20s\nhash_keys pepper\nkey_prefix mine", caddytest.LimitedSite,
		"no warning", "no failed", "reachable ok", "mode ok", "version ok", "writable ok", "permissions ok",
		"admin rights ok", "overrides ok", "script ok", "round trip ok", "eviction ok")
	conn := server.Client(t).Conn()
	defer conn.Close() //nolint:errcheck // the test is over
	conn.Select(t.Context(), 3)
	for _, key := range conn.Keys(t.Context(), "*").Val() {
		ttl := conn.PTTL(t.Context(), key).Val() // -1: forever
		assert.ErrorIf(t, !strings.HasPrefix(key, "mine:{") || ttl == -1 || ttl > 10*time.Second, "the key %s stays for %v", key, ttl)
	}
}

func TestCheck_withoutRedis(t *testing.T) {
	t.Parallel()
	check(t, 0, "fail_mode open", caddytest.LimitedSite, "redis ok: in each Caddy process")
	caddytest.RunRatelimit(t, nil, "check").Want(t, 1, "--config")
	caddytest.RunRatelimit(t, nil, "check", "--config", caddytest.WriteCaddyfile(t, "{\nredis_ratelimit {\nnonsense\n}\n}")).Want(t, 1, "nonsense")
}

func TestCheck_unreachable(t *testing.T) {
	t.Parallel()
	nowhere := redistest.FreeAddr(t)
	locked := redistest.Start(t, "--requirepass", "the right one")
	env := []string{"REDIS_PASSWORD=" + caddytest.Password}
	for _, test := range []struct {
		code                 int
		name, option, failed string
	}{
		{3, "nothing listens", "redis redis://" + nowhere, "reachable failed: start Redis"},
		{3, "no such socket", "redis unix:///nowhere.sock", "reachable failed: path of its socket"},
		{3, "no TLS", "redis rediss://" + locked.Addr, "reachable failed: whether Redis has tls"},
		{2, "a wrong password", "redis redis://:{env.REDIS_PASSWORD}@" + locked.Addr, "reachable failed: change username and password"},
		{2, "no password", "redis redis://" + locked.Addr, "reachable failed: set username and password"},
		{2, "no such database", "redis redis://:the%20right%20one@" + locked.Addr + "/99", "reachable failed: number that this Redis has"},
		{2, "an empty placeholder", "redis redis://:{env.NO_SUCH}@" + locked.Addr, "configuration failed: NO_SUCH"},
		{3, "no sentinel", "redis {\nmode sentinel\nmaster m\naddress " + nowhere + "\n}", "reachable failed: start the sentinel"},
		{3, "no cluster", "redis {\nmode cluster\naddress " + nowhere + "\n}", "reachable failed: start Redis"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			checkTable(t, env, test.code, test.option, caddytest.LimitedSite, test.failed)
		})
	}
}

func TestCheck_missingCommands(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	option := "redis redis://limiter:secret@" + server.Addr + "/2"
	all := strings.Fields(caddytest.ACLCommands + " " + caddytest.ACLDatabaseCommands)
	servers := []*redistest.Server{server}
	others := strings.Fields("llen lindex lrange lset ltrim rpush pexpire hdel hgetall hmget hset")
	withLog := strings.Replace(caddytest.LimitedSite, "name api", "name api\nalgorithm sliding_window_log", 1) +
		"\nredis_ratelimit {\nname running\nmax_concurrent 5\n}"

	caddytest.RestrictUser(t, servers, all)
	check(t, 0, option, withLog, "permissions ok", "script ok", "eviction ok: unknown",
		"admin rights warning: ACL SETUSER limiter +type +pttl +scan +unlink",
		"overrides warning: ACL SETUSER limiter +hget +hlen +hscan +unlink")
	for _, left := range all {
		caddytest.RestrictUser(t, servers, caddytest.Without(all, left))
		wants := []string{"permissions failed: ACL SETUSER limiter +" + left}
		if slices.Contains([]string{"time", "get", "set", "rpush"}, left) {
			wants = append(wants, "script failed: grant the rights")
		}
		check(t, 2, option, withLog, wants...)
	}
	caddytest.RestrictUser(t, servers, caddytest.Without(all, others...))
	// No policy is one of sliding_window_log.
	check(t, 0, option, caddytest.LimitedSite, "permissions ok", "script ok")
	caddytest.RestrictUser(t, servers, all)
	check(t, 2, option+"\nkey_prefix other", caddytest.LimitedSite, "permissions failed: ~other:*")
}

func TestCheck_replica(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	host, port, _ := strings.Cut(master.Addr, ":")
	replica := redistest.Start(t, "--replicaof", host, port)
	check(t, 2, "redis redis://"+replica.Addr, caddytest.LimitedSite, "writable failed: mode sentinel",
		"script failed: READONLY")
}

func TestCheck_cluster(t *testing.T) {
	t.Parallel()
	masters := redistest.StartCluster(t)
	option := "hash_keys pepper\nredis {\nmode cluster\naddress " + masters[0].Addr + " " + redistest.FreeAddr(t) + "\nusername limiter\npassword secret\n}"
	all := strings.Fields(caddytest.ACLCommands + " " + caddytest.ACLClusterCommands + " " + caddytest.ACLOperatorCommands + " " + caddytest.ACLOverrideCommands)
	caddytest.RestrictUser(t, masters, all)
	check(t, 0, option, caddytest.LimitedSite, "no failed", "reachable warning: refused", "mode ok: 3 masters",
		"permissions ok: (all 3 masters)")
	caddytest.RestrictUser(t, masters[1:2], caddytest.Without(all, "asking"))
	check(t, 2, option, caddytest.LimitedSite, "permissions failed: "+masters[1].Addr+": missing: +asking")
	check(t, 2, "redis redis://"+masters[0].Addr, caddytest.LimitedSite, "mode failed: set mode cluster")
}

func TestCheck_sentinels(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	sentinel := redistest.StartSentinel(t, master, "main")
	option := func(name, address string) string {
		return "redis {\nmode sentinel\nmaster " + name + "\naddress " + address + "\nsentinel_username limiter\nsentinel_password secret\n}"
	}
	all := strings.Fields(caddytest.ACLSentinelCommands)
	channels := strings.Fields(caddytest.ACLSentinelChannels)
	caddytest.RestrictUser(t, []*redistest.Server{sentinel}, all, channels...)
	check(t, 0, option("main", sentinel.Addr), caddytest.LimitedSite, "no failed", "mode ok: master main")
	check(t, 2, option("other", sentinel.Addr), caddytest.LimitedSite,
		"master failed: watches no master called other")
	for _, left := range slices.Concat(all, channels) {
		caddytest.RestrictUser(t, []*redistest.Server{sentinel}, caddytest.Without(all, left), caddytest.Without(channels, left)...)
		check(t, 2, option("main", sentinel.Addr), caddytest.LimitedSite, "permissions failed: "+left)
	}
	check(t, 2, "redis {\nmode sentinel\nmaster main\naddress "+master.Addr+"\n}", caddytest.LimitedSite,
		"mode failed: leave mode out")
}

func TestCheck_warnings(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	proxy := redistest.NewProxy(t, server.Addr)
	proxy.DelayPings(350 * time.Millisecond)
	check(t, 0, "timeout 1s\nredis redis://"+proxy.Addr, caddytest.LimitedSite, "round trip warning: set timeout to",
		"eviction warning: noeviction", "no failed")
	check(t, 2, "redis {\nmode cluster\naddress "+server.Addr+"\n}", caddytest.LimitedSite,
		"mode failed: leave mode out")
}

func TestCheck_TLS(t *testing.T) {
	t.Parallel()
	authority, address, _ := startTLS(t)
	option := func(tls string) string { return "redis {\naddress " + address + "\n" + tls + "\n}" }
	check(t, 0, option("tls {\nca "+authority.CA+"\nserver_name redis.test\n}"), caddytest.LimitedSite,
		"no failed")
	check(t, 3, option("tls"), caddytest.LimitedSite, "reachable failed: set ca and server_name")
	check(t, 3, option(""), caddytest.LimitedSite, "reachable failed: the port may speak TLS only")
}
