package redis

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// everyAlgorithm is a site with a policy for each path: one for each algorithm, one of running requests, a log
// with a short window and a full one.
func everyAlgorithm() (site string, paths []string) {
	for _, algorithm := range limiter.Algorithms() {
		site += "redis_ratelimit /" + algorithm + " {\nname " + algorithm + "\nkey same\nlimit 1000\nwindow 24h\nalgorithm " + algorithm + "\n}\n"
		paths = append(paths, "/"+algorithm)
	}
	site += "redis_ratelimit /running {\nname running\nkey same\nmax_concurrent 1000\n}\n" +
		"redis_ratelimit /short {\nname short\nkey same\nlimit 1000\nwindow 1ms\nalgorithm sliding_window_log\n}\n" +
		"redis_ratelimit /full {\nname full\nkey same\nlimit 1\nwindow 24h\nalgorithm sliding_window_log\n}\n"
	return site + caddytest.ShowDecision, append(paths, "/running", "/short", "/short", "/short", "/full", "/full")
}

// askAll requests the paths and returns an error for the first response without a decision by Redis.
func askAll(n *caddytest.Node, paths []string) error {
	for _, path := range paths {
		a, err := n.Try(http.MethodGet, n.URL+path, "")
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if !strings.HasSuffix(a.Body, " redis") {
			return fmt.Errorf("%s: got %v; outages: %v", path, a, n.Log.Outages())
		}
	}
	return nil
}

func TestACL_singleRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	site, paths := everyAlgorithm()
	text := caddytest.Config("redis_ratelimit {\ntimeout 10s\ndeny_cache off\nredis redis://limiter:{env.REDIS_PASSWORD}@"+server.Addr+"/2\n}", site)
	all := strings.Fields(caddytest.ACLCommands + " " + caddytest.ACLDatabaseCommands)
	needed := caddytest.Only(all, func(c string) bool { // a Cluster needs two of these, and no answer the others
		return c != "lrange" && c != "lset" && c != "hdel" && c != "hgetall"
	})
	caddytest.CheckExactRights(t, []*redistest.Server{server}, all, needed, nil, func(t *testing.T) error {
		n := caddytest.Start(t, text, "REDIS_PASSWORD=secret")
		defer n.Stop(t)
		return askAll(n, paths)
	})
}

func TestACL_cluster(t *testing.T) {
	t.Parallel()
	masters := redistest.StartCluster(t)
	site, paths := everyAlgorithm()
	site += "\nredis_ratelimit /two {\npolicy log {\nkey a\nlimit 100000\nwindow 24h\nalgorithm sliding_window_log\n}\npolicy few {\nkey b\nlimit 3\nwindow 1s\n}\n}"
	text := caddytest.Config("redis_ratelimit {\ntimeout 10s\ndeny_cache off\nredis {\nmode cluster\naddress "+masters[0].Addr+"\nusername limiter\npassword {env.REDIS_PASSWORD}\n}\n}", site)
	reshard(t, masters, "same")
	all := strings.Fields(caddytest.ACLCommands + " " + caddytest.ACLClusterCommands)
	needed := strings.Fields(caddytest.ACLClusterCommands + " lrange lset")
	caddytest.CheckExactRights(t, masters, all, needed, nil, func(t *testing.T) error {
		n := caddytest.Start(t, text, "REDIS_PASSWORD=secret")
		defer n.Stop(t)
		if err := askAll(n, paths); err != nil {
			return err
		}
		return race(n, "/two")
	})
}

// reshard begins to move the slot of a client key to another master. New counts are made there, after
// an ASK.
func reshard(t *testing.T, masters []*redistest.Server, key string) {
	t.Helper()
	ctx := t.Context()
	slot := masters[0].Client(t).ClusterKeySlot(ctx, key).Val()
	owner := int(slot) * len(masters) / 16384
	ids := make([]string, len(masters))
	for i, m := range masters {
		ids[i] = m.Client(t).Do(ctx, "cluster", "myid").String()
		ids[i] = ids[i][strings.LastIndexByte(ids[i], ' ')+1:]
	}
	next := (owner + 1) % len(masters)
	if err := masters[next].Client(t).Do(ctx, "cluster", "setslot", slot, "importing", ids[owner]).Err(); err != nil {
		t.Fatal(err)
	}
	if err := masters[owner].Client(t).Do(ctx, "cluster", "setslot", slot, "migrating", ids[next]).Err(); err != nil {
		t.Fatal(err)
	}
}

// race sends requests of many clients at once. Some find the quota used between peek and take, and
// refund the other policy.
func race(n *caddytest.Node, path string) error {
	errs := make([]error, 64)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() { errs[i] = askAll(n, []string{path}) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestACL_sentinel(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	sentinel := redistest.StartSentinel(t, master, "main")
	site, paths := everyAlgorithm()
	text := caddytest.Config("redis_ratelimit {\ntimeout 10s\ndeny_cache off\nredis {\nmode sentinel\nmaster main\naddress "+sentinel.Addr+
		"\nsentinel_username limiter\nsentinel_password secret\nusername limiter\npassword secret\n}\n}", site)
	caddytest.RestrictUser(t, []*redistest.Server{master}, strings.Fields(caddytest.ACLCommands))
	all := strings.Fields(caddytest.ACLSentinelCommands)
	needed := caddytest.Only(all, func(c string) bool { return c != "ping" }) // used after 3 idle seconds
	caddytest.CheckExactRights(t, []*redistest.Server{sentinel}, all, needed, strings.Fields(caddytest.ACLSentinelChannels), func(t *testing.T) error {
		n := caddytest.Start(t, text)
		defer n.Stop(t)
		return askAll(n, paths)
	})
	if objects := caddytest.RefusedByACL(t, []*redistest.Server{master}); len(objects) > 0 {
		t.Errorf("the master refuses %v", objects)
	}
}
