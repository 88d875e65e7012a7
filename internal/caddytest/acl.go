package caddytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// Rights that a Redis user needs. The keys are those of the prefix alone: ~rl:*
const (
	// ACLCommands are needed on every Redis with counts. The first line is for the scripts, the second for
	// sliding_window_log alone, the third with pexpire for max_concurrent.
	ACLCommands = "evalsha eval time get set " +
		"llen lindex rpush ltrim pexpire lrange lset " +
		"hdel hgetall hmget hset " +
		"ping"

	// ACLDatabaseCommands are needed for a database other than 0.
	ACLDatabaseCommands = "select"

	// ACLOperatorCommands are needed for state and reset of the admin API.
	ACLOperatorCommands = "type pttl scan unlink"

	// ACLOverrideCommands are needed once there are overrides.
	ACLOverrideCommands = "hdel hget hlen hscan hset unlink"

	// ACLClusterCommands are needed on every node of a Cluster.
	ACLClusterCommands = "cluster|slots command asking"

	// ACLSentinelCommands are needed on the sentinels.
	ACLSentinelCommands = "sentinel|get-master-addr-by-name sentinel|sentinels subscribe ping"

	// ACLSentinelChannels are subscribed to on the sentinels.
	ACLSentinelChannels = "+switch-master +replica-reconf-done"
)

// RestrictUser creates the user "limiter" with the password "secret" and these commands and channels, and
// clears the ACL log.
func RestrictUser(t *testing.T, servers []*redistest.Server, commands []string, channels ...string) {
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
			err := client.Do(t.Context(), command...).Err()
			if err != nil && strings.HasPrefix(err.Error(), "ERR unknown command") {
				t.Skip("the sentinels of this Redis have no users, which came with 6.2")
			}
			assert.Must(t, err)
		}
	}
}

// RefusedByACL returns what Redis did not permit to the user.
func RefusedByACL(t *testing.T, servers []*redistest.Server) []string {
	t.Helper()
	var objects []string
	for _, s := range servers {
		for _, entry := range assert.NoError(s.Client(t).ACLLog(t.Context(), 128).Result())(t) {
			objects = append(objects, entry.Object)
		}
	}
	return objects
}

// CheckExactRights checks that the commands and channels suffice together, and that Redis refuses something without any
// one channel or needed command. The exercise returns an error for a request that Redis did not decide.
func CheckExactRights(t *testing.T, servers []*redistest.Server, all, needed, channels []string, exercise func(t *testing.T) error) {
	t.Helper()
	RestrictUser(t, servers, all, channels...)
	err := exercise(t)
	assert.ErrorIf(t, err != nil, "with the commands %v: %v", all, err)
	objects := RefusedByACL(t, servers)
	assert.ErrorIf(t, len(objects) > 0, "with the commands %v and channels %v these are refused: %v", all, channels, objects)
	for _, left := range slices.Concat(needed, channels) {
		RestrictUser(t, servers, Without(all, left), Without(channels, left)...)
		for _, s := range servers {
			_ = s.Client(t).ScriptFlush(t.Context()).Err() // a sentinel has no scripts
		}
		assert.Retry(t, "Redis refuses "+left, func() (again bool, seen any) {
			_ = exercise(t)
			objects := RefusedByACL(t, servers)
			return !slices.ContainsFunc(objects, names(left)), fmt.Sprintf("it is never needed, but %v", objects)
		})
	}
}

// Without returns the words but some.
func Without(words []string, left ...string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(word string) bool { return slices.Contains(left, word) })
}

// names returns a function that reports whether an object of the ACL's log is a command or channel. Redis 6.0
// logs "cluster" for "cluster|slots".
func names(wanted string) func(object string) bool {
	command, _, _ := strings.Cut(wanted, "|")
	return func(object string) bool { return object == wanted || object == command }
}
