package caddytest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// Rights that a Redis user needs. The keys are those of the prefix alone: ~rl:*
const (
	// On every Redis with counts. The first line is for the scripts, the second for
	// sliding_window_log alone.
	commands = "evalsha eval time get set " +
		"llen lindex rpush ltrim pexpire lrange lset " +
		"ping"

	// For a database other than 0.
	databaseCommands = "select"

	// For state and reset of the admin API.
	operatorCommands = "type pttl scan unlink"

	// On every node of a Cluster.
	clusterCommands = "cluster|slots command asking"

	// On the sentinels.
	sentinelCommands = "sentinel|get-master-addr-by-name sentinel|sentinels subscribe ping"
	sentinelChannels = "+switch-master +replica-reconf-done"
)

// restrict sets the commands of the user "limiter" and clears the ACL log.
func restrict(t *testing.T, servers []*redistest.Server, commands []string, channels ...string) {
	t.Helper()
	rule := []any{"acl", "setuser", "limiter", "reset", "on", ">secret", "~rl:*", "-@all"}
	for _, command := range commands {
		rule = append(rule, "+"+command)
	}
	for _, channel := range channels {
		rule = append(rule, "&"+channel)
	}
	for _, s := range servers {
		client := s.Client(t)
		for _, command := range [][]any{rule, {"acl", "log", "reset"}} {
			if err := client.Do(t.Context(), command...).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// refused returns what Redis did not permit to the user.
func refused(t *testing.T, servers []*redistest.Server) []string {
	t.Helper()
	var objects []string
	for _, s := range servers {
		entries, err := s.Client(t).ACLLog(t.Context(), 128).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			objects = append(objects, entry.Object)
		}
	}
	return objects
}

// everyAlgorithm is a site with a policy for each path: one for each algorithm, a log with a short
// window and a full one.
func everyAlgorithm() (site string, paths []string) {
	for _, algorithm := range limiter.Algorithms() {
		site += "redis_ratelimit /" + algorithm + " {\nname " + algorithm + "\nkey same\nlimit 1000\nwindow 24h\nalgorithm " + algorithm + "\n}\n"
		paths = append(paths, "/"+algorithm)
	}
	site += "redis_ratelimit /short {\nname short\nkey same\nlimit 1000\nwindow 1ms\nalgorithm sliding_window_log\n}\n" +
		"redis_ratelimit /full {\nname full\nkey same\nlimit 1\nwindow 24h\nalgorithm sliding_window_log\n}\n"
	return site + showDecision, append(paths, "/short", "/short", "/short", "/full", "/full")
}

// expectExactly checks that the commands and channels suffice together, and that Redis refuses something
// without any one channel or needed command. The exercise returns an error for a request that Redis did
// not decide.
func expectExactly(t *testing.T, servers []*redistest.Server, all, needed, channels []string, exercise func(t *testing.T) error) {
	t.Helper()
	restrict(t, servers, all, channels...)
	if err := exercise(t); err != nil {
		t.Errorf("with the commands %v: %v", all, err)
	}
	if objects := refused(t, servers); len(objects) > 0 {
		t.Errorf("with the commands %v and channels %v these are refused: %v", all, channels, objects)
	}
	for _, left := range slices.Concat(needed, channels) {
		other := func(word string) bool { return word != left }
		restrict(t, servers, only(all, other), only(channels, other)...)
		for _, s := range servers {
			_ = s.Client(t).ScriptFlush(t.Context()).Err() // a sentinel has no scripts
		}
		redistest.WaitFor(t, "Redis refuses "+left, func() error {
			_ = exercise(t)
			if objects := refused(t, servers); !slices.Contains(objects, left) {
				return fmt.Errorf("it is never needed, but %v", objects)
			}
			return nil
		})
	}
}

// only returns the words that are kept.
func only(words []string, keep func(string) bool) []string {
	var kept []string
	for _, word := range words {
		if keep(word) {
			kept = append(kept, word)
		}
	}
	return kept
}

// runGroups requests the paths and returns an error for the first response without a decision by Redis.
func askAll(n *node, paths []string) error {
	for _, path := range paths {
		a, err := n.try(http.MethodGet, n.URL+path, "")
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if !strings.HasSuffix(a.body, " redis") {
			return fmt.Errorf("%s: got %v", path, a)
		}
	}
	return nil
}

func TestACL_singleRedis(t *testing.T) {
	server := redistest.Start(t)
	site, paths := everyAlgorithm()
	text := config("redis_ratelimit {\ntimeout 10s\ndeny_cache off\nredis redis://limiter:{env.REDIS_PASSWORD}@"+server.Addr+"/2\n}", site)
	all := strings.Fields(commands + " " + databaseCommands)
	needed := only(all, func(c string) bool { return c != "lrange" && c != "lset" }) // a Cluster needs them
	expectExactly(t, []*redistest.Server{server}, all, needed, nil, func(t *testing.T) error {
		n := start(t, text, "REDIS_PASSWORD=secret")
		defer n.stop(t)
		return askAll(n, paths)
	})
}

func TestACL_cluster(t *testing.T) {
	masters := redistest.StartCluster(t)
	site, paths := everyAlgorithm()
	site += "\nredis_ratelimit /two {\npolicy log {\nkey a\nlimit 100000\nwindow 24h\nalgorithm sliding_window_log\n}\npolicy few {\nkey b\nlimit 3\nwindow 1s\n}\n}"
	text := config("redis_ratelimit {\ntimeout 10s\ndeny_cache off\nredis {\nmode cluster\naddress "+masters[0].Addr+"\nusername limiter\npassword {env.REDIS_PASSWORD}\n}\n}", site)
	reshard(t, masters, "same")
	all := strings.Fields(commands + " " + clusterCommands)
	needed := strings.Fields(clusterCommands + " lrange lset")
	expectExactly(t, masters, all, needed, nil, func(t *testing.T) error {
		n := start(t, text, "REDIS_PASSWORD=secret")
		defer n.stop(t)
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
func race(n *node, path string) error {
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
	master := redistest.Start(t)
	sentinel := redistest.StartSentinel(t, master, "main")
	site, paths := everyAlgorithm()
	text := config("redis_ratelimit {\ntimeout 10s\ndeny_cache off\nredis {\nmode sentinel\nmaster main\naddress "+sentinel.Addr+
		"\nsentinel_username limiter\nsentinel_password secret\nusername limiter\npassword secret\n}\n}", site)
	restrict(t, []*redistest.Server{master}, strings.Fields(commands))
	all := strings.Fields(sentinelCommands)
	needed := only(all, func(c string) bool { return c != "ping" }) // used after 3 idle seconds
	expectExactly(t, []*redistest.Server{sentinel}, all, needed, strings.Fields(sentinelChannels), func(t *testing.T) error {
		n := start(t, text)
		defer n.stop(t)
		return askAll(n, paths)
	})
	if objects := refused(t, []*redistest.Server{master}); len(objects) > 0 {
		t.Errorf("the master refuses %v", objects)
	}
}
