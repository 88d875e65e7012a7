package reliability

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// setRight grants a right to the user "limiter", or revokes it.
func setRight(t *testing.T, s *redistest.Server, right string) {
	t.Helper()
	assert.Must(t, s.Client(t).Do(t.Context(), "acl", "setuser", "limiter", right).Err())
}

// TestRights_revoked revokes a right that only the script needs, during traffic and before any, and grants it again.
func TestRights_revoked(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"local": "allowed fallback", "open": "failed_open redis", "closed": "failed_closed redis"} {
		for right, algorithm := range map[string]string{"set": "gcra", "rpush": "sliding_window_log"} {
			t.Run(mode+" without "+right, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				caddytest.RestrictUser(t, []*redistest.Server{server}, strings.Fields(caddytest.ACLCommands))
				n := caddytest.Start(t, caddytest.Config(caddytest.RedisAt("limiter:secret@"+server.Addr, "timeout 5s\nfail_mode "+mode),
					"redis_ratelimit same 1000000 24h {\nalgorithm "+algorithm+"\n}"+caddytest.ShowDecision))
				caddytest.WaitForRedis(t, n, "/")
				setRight(t, server, "-"+right)
				checkReported(t, n, "closed", want) // by questions alone, before any request
				n.WantTimes(t, 5, "/", 0, want)
				n.CheckMetric(t, "breaker_open", 1)
				assert.ErrorIf(t, n.Metric(t, `store_errors_total{kind="auth"}`) != 1 || n.Metric(t, `store_errors_total{kind="breaker"}`) != 4, "the errors are not counted by kind")
				checkReported(t, n, "open", want)
				setRight(t, server, "+"+right)
				n.CheckMetric(t, "breaker_open", 0) // without requests
				caddytest.CheckOutageLog(t, n)
				n.Get(t, "/").Want(t, 0, "allowed redis")
				n.Ask(t, http.MethodGet, "policies", "").Want(t, http.StatusOK, `*"healthy":true*"breaker":"closed"*`)
			})
		}
	}
}

// checkReported checks that policies and explain report the decisions of requests.
func checkReported(t *testing.T, n *caddytest.Node, breaker, want string) {
	t.Helper()
	n.Ask(t, http.MethodGet, "policies", "").Want(t, http.StatusOK, `*"healthy":false,"error":"*"breaker":"`+breaker+`"*`)
	a := n.Ask(t, http.MethodPost, "explain", `{"url":"`+n.URL+`/","client_ip":"127.0.0.1"}`)
	decision, source, _ := strings.Cut(want, " ")
	if !strings.Contains(a.Body, `"decision":"`+decision+`"`) || strings.Contains(a.Body, `"source":"redis"`) ||
		source == "fallback" && !strings.Contains(a.Body, `"source":"fallback"`) || !strings.Contains(a.Body, `"error":"`) {
		t.Errorf("explain says %v, requests get %s", a, want)
	}
}

// TestRights_renamedCommand has a command that no user can run. The log has the error, and check the remedy.
func TestRights_renamedCommand(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--rename-command", "SET", "")
	option := "redis redis://" + server.Addr + "\nfail_mode open"
	n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\n"+option+"\n}", "redis_ratelimit same 1000000 24h"+caddytest.ShowDecision))
	assert.Retry(t, "the log has an outage", func() (again bool, seen any) {
		n.Get(t, "/").Want(t, 0, "failed_open redis")
		return len(n.Log.Outages()) != 1, n.Log.Lines(caddytest.Ours)
	})
	assert.ErrorIf(t, !strings.Contains(n.Log.Outages()[0].Text, `"kind":"command"`), "the log says %v", n.Log.Outages())
	check(t, failing, option, "redis_ratelimit same 10 1m", "commands failed: unknown to this Redis: set",
		"script failed: see the check of commands")
}

// TestRights_renamedAdmin has commands that no user can run, and that only commands of operators need.
func TestRights_renamedAdmin(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"SCAN", "UNLINK"} {
		server := redistest.Start(t, "--rename-command", command, "")
		findings, code := findingsOf(t, nil, "redis redis://"+server.Addr, caddytest.LimitedSite)
		assert.Equal(t, code, 0, "exit code without %s", command)
		found := 0
		for _, f := range findings {
			if f.is("admin rights warning: " + strings.ToLower(command) + " (unknown to this Redis)") {
				found++
				assert.Equal(t, f.Advice, "remove rename-command for these from the configuration of Redis", "advice about %s", command)
			}
		}
		assert.Equal(t, found, 1, "findings about %s in %+v", command, findings)
	}
}

// TestSharedPrefix has check and policies say what the default key_prefix means, and nothing of another one.
func TestSharedPrefix(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	check(t, 0, "timeout 20s\nredis redis://"+server.Addr, caddytest.LimitedSite, "no warning", "key_prefix ok: "+sharedAdvice)
	findings, _ := findingsOf(t, nil, "redis redis://"+server.Addr+"\nkey_prefix mine", caddytest.LimitedSite)
	for _, f := range findings {
		assert.ErrorIf(t, f.Check == "key_prefix", "another key_prefix: got %+v", f)
	}
	for prefix, want := range map[string]bool{"rl": true, "mine": false} {
		n := caddytest.Start(t, caddytest.Config(caddytest.RedisAt(server.Addr, "timeout 10s\nkey_prefix "+prefix), caddytest.LimitedSite))
		e := n.Ratelimit(t, "policies")
		assert.ErrorIf(t, strings.Contains(strings.Join(strings.Fields(e.Stdout), " "), sharedAdvice) != want, "key_prefix %s: got %v", prefix, e)
	}
}

// TestForeignValue_log checks that a foreign value affects its client alone, and is logged once a minute.
func TestForeignValue_log(t *testing.T) {
	n, server := caddytest.OnRedis(t, "timeout 10s", "redis_ratelimit {query.k} 100 24h"+caddytest.ShowDecision)
	caddytest.WaitForRedis(t, n, "/?k=good")
	assert.Must(t, server.Client(t).Set(t.Context(), "rl:{secretkey}:default:c1d", "a foreign value", 0).Err())
	n.WantTimes(t, 5, "/?k=secretkey", 0, "allowed fallback")
	n.Get(t, "/?k=good").Want(t, 0, "allowed redis")
	n.CheckMetric(t, `store_errors_total{kind="value"}`, 5)
	n.CheckMetric(t, "breaker_open", 0)
	lines := n.Log.Lines(func(l caddytest.LogLine) bool { return caddytest.Ours(l) && l.Level == "warn" })
	assert.ErrorIf(t, len(lines) != 1 || !strings.Contains(lines[0].Text, `"kind":"value"`) || strings.Contains(lines[0].Text, "secretkey"), "the log has %v", lines)
	for kind, write := range map[string][]any{ // these too affect their own client alone
		"list": {"rpush", "rl:{secretkeylist}:default:c1d", "x"}, "short": {"set", "rl:{secretkeyshort}:default:c1d", "x"},
		"long": {"set", "rl:{secretkeylong}:default:c1d", strings.Repeat("\xff", 24)},
	} {
		assert.Must(t, server.Client(t).Do(t.Context(), write...).Err())
		a := n.Get(t, "/?k=secretkey"+kind)
		assert.ErrorIf(t, a.Status != http.StatusOK && a.Status != http.StatusTooManyRequests, "%s: got %v", kind, a)
		n.Get(t, "/?k=good").Want(t, http.StatusOK, "allowed redis")
	}
	assert.ErrorIf(t, len(n.Log.Lines(func(l caddytest.LogLine) bool { return caddytest.Ours(l) && strings.Contains(l.Text, "secretkey") })) > 0, "a key is logged")
}

func TestCheck_busyRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	caddytest.RestrictUser(t, []*redistest.Server{server}, caddytest.Without(strings.Fields(caddytest.ACLCommands), "time"))
	redistest.Busy(t, server)
	check(t, 3, "redis redis://"+server.Addr, caddytest.LimitedSite, "script failed: SCRIPT KILL",
		"eviction warning: BUSY")
	// Redis checks rights before it replies BUSY.
	check(t, failing, "redis redis://limiter:secret@"+server.Addr, caddytest.LimitedSite,
		"permissions failed: missing: +time")
}

func TestCheck_maxclients(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	held := server.Client(t).Conn()
	defer held.Close() //nolint:errcheck // the test is over
	assert.Must(t, held.ConfigSet(t.Context(), "maxclients", "1").Err())
	check(t, failing, "redis redis://"+server.Addr, caddytest.LimitedSite,
		"reachable failed: ERR max number of clients reached", "reachable failed: raise maxclients in Redis")
}

func TestCheck_masterHangs(t *testing.T) {
	t.Parallel()
	masters := redistest.StartCluster(t)
	redistest.Tolerate(t, masters)
	masters[0].Pause(t)
	defer masters[0].Resume(t)
	one, two := masters[1].Addr, masters[2].Addr
	check(t, 3, "redis {\nmode cluster\naddress "+one+"\n}", caddytest.LimitedSite, "reachable failed: "+masters[0].Addr,
		"mode ok: 3 masters, of which 2 answer", "script ok: "+one, "version ok: "+one, "script ok: "+two, "version ok: "+two)
}
