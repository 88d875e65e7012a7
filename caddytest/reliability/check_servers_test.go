package reliability

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// everyCommand is a site whose policies need all commands that decisions need.
var everyCommand = strings.Replace(caddytest.LimitedSite, "name api", "name api\nalgorithm sliding_window_log", 1) +
	"\nredis_ratelimit {\nname running\nmax_concurrent 5\n}"

// setUser replaces the rights of the user "limiter".
func setUser(t *testing.T, s *redistest.Server, rights string) error {
	t.Helper()
	rule := []any{"acl", "setuser", "limiter", "reset", "on", ">secret"}
	for word := range strings.FieldsSeq(rights) {
		rule = append(rule, word)
	}
	return s.Client(t).Do(t.Context(), rule...).Err()
}

// TestCheck_advisedRights follows the advice of the check of permissions, which then finds nothing missing.
func TestCheck_advisedRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	option := "redis redis://limiter:secret@" + server.Addr
	for _, rights := range []string{"~rl:* -@all +@scripting", "-@all +set +get", "~other:* -@all", "%R~rl:* -@all +ping", "-@all +set resetdbs"} {
		if err := setUser(t, server, rights); err != nil { // Redis before 7.0 has no %R, and all but Valkey 9.1 no resetdbs
			assert.ErrorIf(t, !strings.Contains(err.Error(), "'%R~rl:*': Syntax error") &&
				!strings.Contains(err.Error(), "'resetdbs': Syntax error"), "%v", err)
			continue
		}
		findings, code := findingsOf(t, nil, option, everyCommand)
		at := slices.IndexFunc(findings, func(f finding) bool { return f.is("permissions failed: in Redis: ACL SETUSER limiter") })
		assert.FatalIf(t, code != 2 || at < 0, "%s: got exit code %d, %+v", rights, code, findings)
		_, advice, _ := strings.Cut(findings[at].Advice, "in Redis: ")
		advice, _, _ = strings.Cut(advice, ";")
		var command []any
		for word := range strings.FieldsSeq(advice) {
			command = append(command, word)
		}
		assert.Must(t, server.Client(t).Do(t.Context(), command...).Err())
		check(t, 0, option, everyCommand, "permissions ok", "script ok")
		for _, key := range server.Client(t).Keys(t.Context(), "*probe*").Val() {
			ttl := server.Client(t).PTTL(t.Context(), key).Val() // -1: forever
			assert.ErrorIf(t, ttl == -1, "%s: the key %s stays for ever", rights, key)
		}
	}
}

// TestCheck_withoutEval has the scripts loaded and a user who may run them by their hashes alone: the check of
// permissions names the right, and no other check blames the kind of server.
func TestCheck_withoutEval(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	check(t, 0, "redis redis://"+server.Addr, caddytest.LimitedSite, "script ok")
	caddytest.RestrictUser(t, []*redistest.Server{server}, caddytest.Without(strings.Fields(caddytest.ACLCommands), "eval"))
	findings, _ := findingsOf(t, nil, "redis redis://limiter:secret@"+server.Addr, caddytest.LimitedSite)
	failed := slices.DeleteFunc(findings, func(f finding) bool { return f.Result != "failed" })
	assert.ErrorIf(t, len(failed) != 1 || !failed[0].is("permissions failed: missing: +eval"), "got %+v; want one that names +eval", failed)
}

// TestCheck_databaseRights has users of Valkey 9.1 who may not use the database.
func TestCheck_databaseRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	all := "~rl:* -@all +" + strings.Join(strings.Fields(caddytest.ACLCommands+" "+caddytest.ACLDatabaseCommands), " +")
	if err := setUser(t, server, all+" resetdbs db=0"); err != nil {
		assert.ErrorIf(t, !strings.Contains(err.Error(), "'resetdbs': Syntax error"), "%v", err)
		t.Skip("Valkey has rights to databases since 9.1")
	}
	check(t, 0, "redis redis://limiter:secret@"+server.Addr, everyCommand, "permissions ok")
	check(t, 2, "redis redis://limiter:secret@"+server.Addr+"/3", everyCommand,
		"permissions failed: missing: db=3 in Redis: ACL SETUSER limiter db=3; name other")
	assert.Must(t, setUser(t, server, all+" resetdbs"))
	check(t, 2, "redis redis://limiter:secret@"+server.Addr, everyCommand, "permissions failed: missing: db=0; untried without these: +get",
		"permissions failed: ~rl:*; name other databases", "admin rights warning: may not use the database", "script failed: grant the rights")
}

// TestCheck_clusterNodes asks nodes of Clusters that decide nothing.
func TestCheck_clusterNodes(t *testing.T) {
	t.Parallel()
	option := func(s *redistest.Server) string { return "redis {\nmode cluster\naddress " + s.Addr + "\n}" }
	check(t, 2, option(redistest.StartLoneNode(t)), caddytest.LimitedSite, "mode failed: redis-cli --cluster create")
	for _, reads := range []string{"no", "yes"} {
		down := redistest.StartDownCluster(t, "--cluster-allow-reads-when-down", reads)
		check(t, 2, option(down), caddytest.LimitedSite, "script failed: see CLUSTER INFO")
	}
}

// TestCheck_noEndpoint has a Cluster that announces no endpoint, as behind a balancer.
func TestCheck_noEndpoint(t *testing.T) {
	t.Parallel()
	masters := redistest.StartCluster(t)
	for _, m := range masters {
		if m.Client(t).ConfigSet(t.Context(), "cluster-preferred-endpoint-type", "unknown-endpoint").Err() != nil {
			t.Skip("this server announces addresses alone")
		}
	}
	check(t, 0, "timeout 10s\nredis {\nmode cluster\naddress "+masters[0].Addr+"\n}", caddytest.LimitedSite,
		"mode ok: cluster of 3 masters", "script ok", "no failed")
}

// TestCheck_announced has sentinels and a Cluster announce addresses where nothing listens: the configured ones are
// right.
func TestCheck_announced(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	sentinel := redistest.StartSentinel(t, master, "main")
	master.Kill()
	check(t, 3, "redis {\nmode sentinel\nmaster main\naddress "+sentinel.Addr+"\n}", caddytest.LimitedSite, "reachable ok: "+sentinel.Addr,
		"reachable failed: the sentinel announces "+master.Addr+": start Redis there, or have it announce an address")
	masters := redistest.StartCluster(t)
	masters[1].Kill()
	check(t, failing, "redis {\nmode cluster\naddress "+masters[0].Addr+"\n}", caddytest.LimitedSite, "mode ok: of which 2 answer",
		"reachable failed: the Cluster announces "+masters[1].Addr+": start Redis there, or have it announce an address")
	check(t, failing, "redis {\nmode cluster\naddress "+masters[0].Addr+" "+masters[1].Addr+"\n}", caddytest.LimitedSite,
		"reachable failed: start Redis, or change the address")
}

// TestCheck_oldTLS has servers that Caddy has no version of TLS in common with, or that want a certificate by TLS 1.2.
func TestCheck_oldTLS(t *testing.T) {
	t.Parallel()
	for protocol, want := range map[string]string{
		"TLSv1.1": "tls-protocols in its configuration", "TLSv1.2": "set cert and key of tls if Redis wants", "TLSv1.3": "set cert and key of tls to those",
	} {
		authority, address, _ := startTLS(t, "--tls-protocols", protocol, "--tls-auth-clients", "yes")
		check(t, 3, "redis {\naddress "+address+"\ntls {\nca "+authority.CA+"\n}\n}", caddytest.LimitedSite, "reachable failed: "+want)
	}
}

// TestCheck_replicas has a server refuse writes without replicas. Scripts of Redis before 7.0 do not obey that, and
// check says so to users with and without the right to read the settings.
func TestCheck_replicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--min-replicas-to-write", "1")
	caddytest.RestrictUser(t, []*redistest.Server{server}, strings.Fields(caddytest.ACLCommands))
	obeyed := server.Client(t).Eval(t.Context(), "return redis.call('set', KEYS[1], 1, 'px', 1000)", []string{"obeyed"}).Err()
	for _, user := range []string{"", "limiter:secret@"} {
		option := "redis redis://" + user + server.Addr
		if obeyed != nil {
			assert.ErrorIf(t, !strings.HasPrefix(obeyed.Error(), "NOREPLICAS"), "%v", obeyed)
			check(t, 2, option, caddytest.LimitedSite, "script failed: min-replicas-to-write refuses writes")
			continue
		}
		check(t, 0, option, caddytest.LimitedSite, "script ok", "replicas warning: install Redis 7.0")
	}
	assert.Must(t, server.Client(t).ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
	check(t, 0, "redis redis://"+server.Addr+"\ntimeout 10s", caddytest.LimitedSite, "no warning", "no failed")
}
