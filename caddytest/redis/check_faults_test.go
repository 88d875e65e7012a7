package redis

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"

	"github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestCheck_busyRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--lua-time-limit", "1")
	caddytest.RestrictUser(t, []*redistest.Server{server}, caddytest.Only(strings.Fields(caddytest.ACLCommands), func(c string) bool { return c != "time" }))
	admin := server.Client(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = admin.Eval(context.Background(), "while true do end", nil).Err() // SCRIPT KILL ends it
	}()
	t.Cleanup(func() {
		redistest.WaitFor(t, "the script is killed", func() error { return admin.ScriptKill(context.Background()).Err() })
		<-ended
	})
	redistest.WaitFor(t, "the script runs", func() error {
		if !redis.HasErrorPrefix(admin.Ping(t.Context()).Err(), "BUSY") {
			return errors.New("it does not")
		}
		return nil
	})
	findings, code := check(t, "redis redis://"+server.Addr, caddytest.LimitedSite)
	wantFinding(t, findings, "script", "failed", "SCRIPT KILL")
	wantFinding(t, findings, "eviction", "warning", "BUSY")
	if code != 3 {
		t.Errorf("got exit code %d; want 3", code)
	}
	// Redis checks rights before it replies BUSY.
	findings, _ = check(t, "redis redis://limiter:secret@"+server.Addr, caddytest.LimitedSite)
	wantFinding(t, findings, "permissions", "failed", "missing: +time")
}

func TestCheck_maxclients(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	held := server.Client(t).Conn()
	defer held.Close() //nolint:errcheck // the test is over
	if err := held.ConfigSet(t.Context(), "maxclients", "1").Err(); err != nil {
		t.Fatal(err)
	}
	findings, code := check(t, "redis redis://"+server.Addr, caddytest.LimitedSite)
	if wantFinding(t, findings, "reachable", "failed", "maxclients"); code != 2 && code != 3 { // Redis closes at once, and its reason may be lost
		t.Errorf("got exit code %d", code)
	}
}

func TestCheck_masterHangs(t *testing.T) {
	t.Parallel()
	masters := redistest.StartCluster(t)
	for _, master := range masters {
		if err := master.Client(t).ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err(); err != nil {
			t.Fatal(err)
		}
	}
	masters[0].Pause(t)
	defer masters[0].Resume(t)
	findings, code := check(t, "redis {\nmode cluster\naddress "+masters[1].Addr+"\n}", caddytest.LimitedSite)
	wantFinding(t, findings, "reachable", "failed", masters[0].Addr)
	wantFinding(t, findings, "mode", "ok", "3 masters, of which 2 answer")
	for _, master := range masters[1:] {
		wantFinding(t, findings, "script", "ok", master.Addr)
		wantFinding(t, findings, "version", "ok", master.Addr)
	}
	if code != 3 {
		t.Errorf("got exit code %d", code)
	}
}
