package redis

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// finding is a line of the output of 'check'.
type finding struct{ Check, Result, Detail, Advice string }

// failing is any exit code but 0.
const failing = -1

// check runs 'check' on a global option, as a table and as JSON, checks the exit code of both, and returns the second.
func check(t *testing.T, code int, option, site string, env ...string) (findings []finding) {
	t.Helper()
	file := caddytest.WriteCaddyfile(t, "{\nredis_ratelimit {\n"+option+"\n}\n}\n:8080 {\n"+site+"\n}\n")
	table := caddytest.RunRatelimit(t, env, "check", "--config", file)
	e := caddytest.RunRatelimit(t, env, "check", "--config", file, "--json")
	if err := json.Unmarshal([]byte(e.Stdout), &findings); err != nil || len(findings) == 0 {
		t.Fatalf("%v: %v", err, e)
	}
	redistest.ErrorIf(t, table.Code != e.Code || !strings.HasPrefix(table.Stdout, "CHECK "), "the table: %v", table)
	for _, pair := range env {
		if name, value, _ := strings.Cut(pair, "="); name == "REDIS_PASSWORD" {
			caddytest.CheckHidden(t, "check", table.String()+e.String(), value)
		}
	}
	redistest.ErrorIf(t, e.Code != code && (code != failing || e.Code == 0), "%s: got exit code %d; want %d", option, e.Code, code)
	return findings
}

// wantFinding checks that there is a finding of that check and result, whose detail and advice hold a text.
func wantFinding(t *testing.T, findings []finding, check, result, text string) {
	t.Helper()
	if !slices.ContainsFunc(findings, func(f finding) bool {
		return f.Check == check && f.Result == result && strings.Contains(f.Detail+" "+f.Advice, text)
	}) {
		t.Errorf("no %s %s with %q in %+v", check, result, text, findings)
	}
}

// wantNothing checks that no finding has a result.
func wantNothing(t *testing.T, findings []finding, result string) {
	t.Helper()
	for _, f := range findings {
		redistest.ErrorIf(t, f.Result == result, "got %+v", f)
	}
}

func TestCheck_goodRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	findings := check(t, 0, "redis redis://"+server.Addr+"/3\ntimeout 20s\nhash_keys pepper\nkey_prefix mine", caddytest.LimitedSite)
	for _, name := range []string{"reachable", "mode", "version", "writable", "permissions", "admin rights", "overrides", "script", "round trip", "eviction"} {
		wantFinding(t, findings, name, "ok", "")
	}
	wantNothing(t, findings, "warning")
	wantNothing(t, findings, "failed")
	client := server.Client(t)
	conn := client.Conn()
	defer conn.Close() //nolint:errcheck // the test is over
	conn.Select(t.Context(), 3)
	for _, key := range conn.Keys(t.Context(), "*").Val() {
		ttl := conn.PTTL(t.Context(), key).Val() // -1: forever
		redistest.ErrorIf(t, !strings.HasPrefix(key, "mine:{") || ttl == -1 || ttl > 10*time.Second, "the key %s stays for %v", key, ttl)
	}
}

func TestCheck_withoutRedis(t *testing.T) {
	t.Parallel()
	findings := check(t, 0, "fail_mode open", caddytest.LimitedSite)
	wantFinding(t, findings, "redis", "ok", "in each Caddy process")
	caddytest.RunRatelimit(t, nil, "check").Want(t, 1, "--config")
	caddytest.RunRatelimit(t, nil, "check", "--config", caddytest.WriteCaddyfile(t, "{\nredis_ratelimit {\nnonsense\n}\n}")).Want(t, 1, "nonsense")
}

func TestCheck_unreachable(t *testing.T) {
	t.Parallel()
	nowhere := redistest.FreeAddr(t)
	locked := redistest.Start(t, "--requirepass", "the right one")
	env := []string{"REDIS_PASSWORD=" + caddytest.Password}
	for _, tt := range []struct {
		name, option, check, text string
		code                      int
	}{
		{"nothing listens", "redis redis://" + nowhere, "reachable", "start Redis", 3},
		{"no such socket", "redis unix:///nowhere.sock", "reachable", "path of its socket", 3},
		{"no TLS", "redis rediss://" + locked.Addr, "reachable", "whether Redis has tls", 3},
		{"a wrong password", "redis redis://:{env.REDIS_PASSWORD}@" + locked.Addr, "reachable", "change username and password", 2},
		{"no password", "redis redis://" + locked.Addr, "reachable", "set username and password", 2},
		{"no such database", "redis redis://:the%20right%20one@" + locked.Addr + "/99", "reachable", "number that this Redis has", 2},
		{"an empty placeholder", "redis redis://:{env.NO_SUCH}@" + locked.Addr, "configuration", "NO_SUCH", 2},
		{"no sentinel", "redis {\nmode sentinel\nmaster m\naddress " + nowhere + "\n}", "reachable", "start the sentinel", 3},
		{"no cluster", "redis {\nmode cluster\naddress " + nowhere + "\n}", "reachable", "start Redis", 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			findings := check(t, tt.code, tt.option, caddytest.LimitedSite, env...)
			wantFinding(t, findings, tt.check, "failed", tt.text)
		})
	}
}

func TestCheck_missingCommands(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	option := "redis redis://limiter:secret@" + server.Addr + "/2"
	all := strings.Fields(caddytest.ACLCommands + " " + caddytest.ACLDatabaseCommands)
	servers := []*redistest.Server{server}
	inLog := strings.Fields("llen lindex lrange lset ltrim rpush pexpire")
	inRunning := strings.Fields("hdel hgetall hmget hset")
	withLog := strings.Replace(caddytest.LimitedSite, "name api", "name api\nalgorithm sliding_window_log", 1) +
		"\nredis_ratelimit {\nname running\nmax_concurrent 5\n}"

	caddytest.RestrictUser(t, servers, all)
	findings := check(t, 0, option, withLog)
	wantFinding(t, findings, "permissions", "ok", "")
	wantFinding(t, findings, "script", "ok", "")
	wantFinding(t, findings, "eviction", "ok", "unknown")
	wantFinding(t, findings, "admin rights", "warning", "ACL SETUSER limiter +type +pttl +scan +unlink")
	wantFinding(t, findings, "overrides", "warning", "ACL SETUSER limiter +hget +hlen +hscan +unlink")
	for _, left := range all {
		caddytest.RestrictUser(t, servers, caddytest.Only(all, func(c string) bool { return c != left }))
		findings := check(t, 2, option, withLog)
		wantFinding(t, findings, "permissions", "failed", "ACL SETUSER limiter +"+left)
		if slices.Contains([]string{"time", "get", "set", "rpush"}, left) {
			wantFinding(t, findings, "script", "failed", "grant the rights")
		}
	}
	caddytest.RestrictUser(t, servers, caddytest.Only(all, func(c string) bool { return !slices.Contains(inLog, c) && !slices.Contains(inRunning, c) }))
	findings = check(t, 0, option, caddytest.LimitedSite) // no policy is one of sliding_window_log
	wantFinding(t, findings, "permissions", "ok", "")
	wantFinding(t, findings, "script", "ok", "")
	caddytest.RestrictUser(t, servers, all)
	findings = check(t, 2, option+"\nkey_prefix other", caddytest.LimitedSite)
	wantFinding(t, findings, "permissions", "failed", "~other:*")
}

func TestCheck_replica(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	host, port, _ := strings.Cut(master.Addr, ":")
	replica := redistest.Start(t, "--replicaof", host, port)
	findings := check(t, 2, "redis redis://"+replica.Addr, caddytest.LimitedSite)
	wantFinding(t, findings, "writable", "failed", "mode sentinel")
	wantFinding(t, findings, "script", "failed", "READONLY")
}

func TestCheck_cluster(t *testing.T) {
	t.Parallel()
	masters := redistest.StartCluster(t)
	option := "hash_keys pepper\nredis {\nmode cluster\naddress " + masters[0].Addr + " " + redistest.FreeAddr(t) + "\nusername limiter\npassword secret\n}"
	all := strings.Fields(caddytest.ACLCommands + " " + caddytest.ACLClusterCommands + " " + caddytest.ACLOperatorCommands + " " + caddytest.ACLOverrideCommands)
	caddytest.RestrictUser(t, masters, all)
	findings := check(t, 0, option, caddytest.LimitedSite)
	wantNothing(t, findings, "failed")
	wantFinding(t, findings, "reachable", "warning", "refused")
	wantFinding(t, findings, "mode", "ok", "3 masters")
	wantFinding(t, findings, "permissions", "ok", "(all 3 masters)")
	caddytest.RestrictUser(t, masters[1:2], caddytest.Only(all, func(c string) bool { return c != "asking" }))
	findings = check(t, 2, option, caddytest.LimitedSite)
	wantFinding(t, findings, "permissions", "failed", masters[1].Addr+": missing: +asking")
	findings = check(t, 2, "redis redis://"+masters[0].Addr, caddytest.LimitedSite)
	wantFinding(t, findings, "mode", "failed", "set mode cluster")
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
	findings := check(t, 0, option("main", sentinel.Addr), caddytest.LimitedSite)
	wantNothing(t, findings, "failed")
	wantFinding(t, findings, "mode", "ok", "master main")
	findings = check(t, 2, option("other", sentinel.Addr), caddytest.LimitedSite)
	wantFinding(t, findings, "master", "failed", "watches no master called other")
	for _, left := range slices.Concat(all, channels) {
		other := func(word string) bool { return word != left }
		caddytest.RestrictUser(t, []*redistest.Server{sentinel}, caddytest.Only(all, other), caddytest.Only(channels, other)...)
		findings = check(t, 2, option("main", sentinel.Addr), caddytest.LimitedSite)
		wantFinding(t, findings, "permissions", "failed", left)
	}
	findings = check(t, 2, "redis {\nmode sentinel\nmaster main\naddress "+master.Addr+"\n}", caddytest.LimitedSite)
	wantFinding(t, findings, "mode", "failed", "leave mode out")
}

func TestCheck_warnings(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	proxy := redistest.NewProxy(t, server.Addr)
	proxy.Delay(40 * time.Millisecond)
	findings := check(t, 0, "redis redis://"+proxy.Addr, caddytest.LimitedSite)
	wantFinding(t, findings, "round trip", "warning", "set timeout to")
	wantFinding(t, findings, "eviction", "warning", "noeviction")
	wantNothing(t, findings, "failed")
	masters := check(t, 2, "redis {\nmode cluster\naddress "+server.Addr+"\n}", caddytest.LimitedSite)
	wantFinding(t, masters, "mode", "failed", "leave mode out")
}

func TestCheck_TLS(t *testing.T) {
	t.Parallel()
	authority := redistest.NewAuthority(t)
	address, args := authority.ServeTLS(t)
	redistest.Start(t, args...)
	option := func(tls string) string { return "redis {\naddress " + address + "\n" + tls + "\n}" }
	findings := check(t, 0, option("tls {\nca "+authority.CA+"\nserver_name redis.test\n}"), caddytest.LimitedSite)
	wantNothing(t, findings, "failed")
	findings = check(t, 3, option("tls"), caddytest.LimitedSite)
	wantFinding(t, findings, "reachable", "failed", "set ca and server_name")
	findings = check(t, 3, option(""), caddytest.LimitedSite)
	wantFinding(t, findings, "reachable", "failed", "the port may speak TLS only")
}
