package reliability

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
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

// idle is a configuration that uses no Redis.
var idle = caddytest.Config("", "respond none")

// anew has an idle node connect to Redis anew, by a configuration, for an exercise.
func anew(t *testing.T, n *caddytest.Node, text string, exercise func() error) error {
	t.Helper()
	n.Reload(t, text)
	defer n.Reload(t, idle)
	return exercise()
}

func TestACL_singleRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	site, paths := everyAlgorithm()
	text := caddytest.Config("redis_ratelimit {\ntimeout 10s\ndeny_cache off\nredis redis://limiter:{env.REDIS_PASSWORD}@"+server.Addr+"/2\n}", site)
	all := strings.Fields(caddytest.ACLCommands + " " + caddytest.ACLDatabaseCommands)
	needed := caddytest.Without(all, "lrange", "lset", "hdel", "hgetall") // a Cluster needs two of these, and no answer the others
	n := caddytest.Start(t, idle, "REDIS_PASSWORD=secret")
	caddytest.CheckExactRights(t, []*redistest.Server{server}, all, needed, nil, func(t *testing.T) error {
		return anew(t, n, text, func() error { return askAll(n, paths) })
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
	n := caddytest.Start(t, idle, "REDIS_PASSWORD=secret")
	caddytest.CheckExactRights(t, masters, all, needed, nil, func(t *testing.T) error {
		return anew(t, n, text, func() error {
			if err := askAll(n, paths); err != nil {
				return err
			}
			return race(n, "/two")
		})
	})
}

// reshard begins to move the slot of a client key to another master. New counts are made there, after an ASK.
func reshard(t *testing.T, masters []*redistest.Server, key string) {
	t.Helper()
	ctx := t.Context()
	slot := masters[0].Client(t).ClusterKeySlot(ctx, key).Val()
	owner := int(slot) * len(masters) / 16384
	from, to := masters[owner], masters[(owner+1)%len(masters)]
	assert.Must(t, to.Client(t).Do(ctx, "cluster", "setslot", slot, "importing", from.ClusterID(t)).Err())
	assert.Must(t, from.Client(t).Do(ctx, "cluster", "setslot", slot, "migrating", to.ClusterID(t)).Err())
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
	return errors.Join(errs...)
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
	needed := caddytest.Without(all, "ping") // used after 3 idle seconds
	n := caddytest.Start(t, idle)
	caddytest.CheckExactRights(t, []*redistest.Server{sentinel}, all, needed, strings.Fields(caddytest.ACLSentinelChannels), func(t *testing.T) error {
		return anew(t, n, text, func() error { return askAll(n, paths) })
	})
	assert.Equal(t, caddytest.RefusedByACL(t, []*redistest.Server{master}), nil, "the list of what the master refuses")
}

// TestACL_bans bans with the rights of decisions alone, and lists and lifts bans with those of operators.
func TestACL_bans(t *testing.T) {
	t.Parallel()
	for mode, start := range map[string]func(t *testing.T) (servers []*redistest.Server, option, rights string){
		"standalone": func(t *testing.T) ([]*redistest.Server, string, string) {
			s := redistest.Start(t)
			return []*redistest.Server{s}, "address " + s.Addr, ""
		},
		"cluster": func(t *testing.T) ([]*redistest.Server, string, string) {
			servers := redistest.StartCluster(t)
			return servers, "mode cluster\naddress " + servers[0].Addr, caddytest.ACLClusterCommands
		},
	} {
		t.Run(mode, func(t *testing.T) {
			servers, option, rights := start(t)
			caddytest.RestrictUser(t, servers, strings.Fields(caddytest.ACLCommands+" "+rights))
			n := caddytest.Start(t, caddytest.Config("redis_ratelimit {\ntimeout 10s\nredis {\n"+option+"\nusername limiter\npassword secret\n}\n}",
				"redis_ratelimit {header.X-Key} 1 24h {\nname api\nban 1h\n}\n"+caddytest.ShowDecision))
			for _, body := range []string{"allowed redis", "denied redis"} {
				n.Get(t, "/", "X-Key: bad").Want(t, 0, body)
			}
			n.CheckMetric(t, `bans_total{policy="api"}`, 1)
			n.Ask(t, http.MethodGet, "bans", "").Want(t, 503, `*"complete":false*`).Want(t, 503, "*NOPERM*") // without the right to search
			n.Override(t, 503, `{"policy":"api","key":"bad","unban":true}`).Want(t, 503, "*NOPERM*")
			n.Override(t, 503, `{"policy":"api","all":true,"unban":true}`).Want(t, 503, "*NOPERM*")
			caddytest.RestrictUser(t, servers, strings.Fields(caddytest.ACLCommands+" "+rights+" "+caddytest.ACLOperatorCommands))
			n.Ratelimit(t, "bans").Want(t, 0, "bad")
			n.Ratelimit(t, "override", "--policy", "api", "--key", "bad", "--unban").Want(t, 0, "1 ban lifted")
			n.Get(t, "/", "X-Key: bad") // banned again
			n.Ratelimit(t, "override", "--policy", "api", "--all", "--unban").Want(t, 0, "1 ban lifted")
			assert.Equal(t, caddytest.RefusedByACL(t, servers), nil, "the list of what is refused")
		})
	}
}

// TestACL_without_overrides has overrides in Redis and a user that may not read them: one line and a metric say so,
// and requests are decided as without overrides.
func TestACL_without_overrides(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	config := func(user string) string {
		return caddytest.Config(caddytest.RedisAt(user+server.Addr, "timeout 10s"), caddytest.LimitedSite)
	}
	knows := caddytest.Start(t, config(""))
	knows.Override(t, http.StatusOK, `{"policy":"api","key":"bad","block":true}`)
	caddytest.RestrictUser(t, []*redistest.Server{server}, strings.Fields(caddytest.ACLCommands))
	n := caddytest.Start(t, config("limiter:secret@"))
	assert.WaitFor(t, "some polls", func() error {
		if polls := len(caddytest.RefusedByACL(t, []*redistest.Server{server})); polls == 0 {
			return errors.New("no poll was refused")
		}
		n.Get(t, "/", fmt.Sprint("X-Key: other", len(n.Log.String()))).Want(t, 0, "* redis")
		log := server.Client(t).Do(t.Context(), "acl", "log").Val()
		if entries, _ := log.([]any); !strings.Contains(fmt.Sprint(entries), "count:3") {
			return fmt.Errorf("got %v", entries)
		}
		return nil
	})
	lines := n.Log.Lines(func(l caddytest.LogLine) bool { return strings.HasPrefix(l.Message, "overrides cannot be read") })
	assert.ErrorIf(t, len(lines) != 1 || n.Metric(t, "breaker_open") != 0, "%d lines, and the breaker is %v; want one and a closed one", len(lines), n.Metric(t, "breaker_open"))
	n.CheckMetric(t, "overrides_stale", 1)
	knows.CheckMetric(t, "overrides_stale", 0)
	n.Get(t, "/", "X-Key: bad").Want(t, 0, "allowed redis")
}

// TestACL_overrides sets, reads, loses and removes an override with the rights that docs/redis.md lists.
func TestACL_overrides(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	text := caddytest.Config("redis_ratelimit {\ntimeout 10s\nredis redis://limiter:secret@"+server.Addr+"\n}", caddytest.LimitedSite)
	needed := strings.Fields(caddytest.ACLOverrideCommands)
	all := slices.Concat(needed, strings.Fields(caddytest.ACLCommands))
	redis := server.Client(t)
	n := caddytest.Start(t, idle)
	exercise := func() error {
		a := n.Ask(t, http.MethodPost, "override", `{"policy":"api","key":"secretkey","block":true}`)
		if a.Status != http.StatusOK {
			assert.ErrorIf(t, a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, "NOPERM") && !strings.Contains(a.Body, "can't run this") && !strings.Contains(a.Body, "ACL failure"), "got %v; want 503 with the reason", a)
			return fmt.Errorf("got %v", a)
		}
		if a := n.Get(t, "/", "X-Key: good"); a.DeniedByRedis() || !strings.HasSuffix(a.Body, " redis") {
			return fmt.Errorf("got %v", a)
		}
		if err := redis.Del(t.Context(), "rl:{%!overrides}:version", "rl:{good}:api:c1d").Err(); err != nil {
			return err
		}
		for _, question := range []struct{ method, path, body string }{
			{http.MethodGet, "overrides", ""}, {http.MethodPost, "override", `{"policy":"api","key":"secretkey","remove":true}`},
		} {
			if a := n.Ask(t, question.method, question.path, question.body); a.Status != http.StatusOK {
				return fmt.Errorf("got %v", a)
			}
		}
		assert.ErrorIf(t, strings.Contains(n.Log.String(), "secretkey"), "a key is in the log: %s", n.Log)
		return nil
	}
	caddytest.CheckExactRights(t, []*redistest.Server{server}, all, needed, nil, func(t *testing.T) error { return anew(t, n, text, exercise) })
}
