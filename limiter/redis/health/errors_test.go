package health

import (
	"errors"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
)

func TestKind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		// Redis 6, with the place before it; 7.0; 7.2, 8 and Valkey.
		"@user_script: 12: WRONGTYPE Operation against a key holding the wrong kind of value":                                     "value",
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 6f, on @user_script:12.":                       "value",
		"@user_script: 7: The user executing the script can't run this command or subcommand":                                     "auth",
		"ERR The user executing the script can't run this command or subcommand script: 6f, on @user_script:12.":                  "auth",
		"@user_script: 7: The user executing the script can't access at least one of the keys mentioned in the command arguments": "auth",
		"ERR ACL failure in script: User limiter has no permissions to run the 'set' command script: 6f, on @user_script:12.":     "auth",
		"NOPERM ACL failure in script: No permissions to access a key":                                                            "auth",
		"@user_script: 7: Unknown Redis command called from Lua script":                                                           "command",
		"ERR Unknown Redis command called from script script: 6f, on @user_script:12.":                                            "command",
		"ERR Unknown command called from script script: 6f, on @user_script:12.":                                                  "command",
		"@user_script: 7: -OOM command not allowed when used memory > 'maxmemory'.":                                               "oom",
		"FOREIGNVALUE the stored value is none of this module":                                                                    "value",
		// Redis 5; Redis whose Lua lacks a library; a proxy that parses the script.
		"ERR syntax error": "incompatible",
		"ERR Error running script: @enable_strict_lua:15: user_script:1: Script attempted to access nonexistent global variable 'struct'": "incompatible",
		"ERR user_script:10: attempt to index a nil value (global 'struct')":                                                              "incompatible",
		"ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array":                   "incompatible",
		"ERR unknown command 'evalsha', with args beginning with: 'struct'":                                                               "command",
		// Words of unknown replies do not decide the kind.
		"ERR something about WRONGTYPE":                     "other",
		"user_script:12: attempt to index a nil value":      "other",
		"ERR This Redis command is not allowed from script": "other",
	} {
		err := wire.Undecided(wire.Failure(text))
		alone := want == "value"
		redistest.ErrorIf(t, limiter.Kind(err) != want || limiter.FailedAlone(err) != alone || certain(err) == alone,
			"%s: kind %s, alone %v, certain %v", text, limiter.Kind(err), limiter.FailedAlone(err), certain(err))
	}
	lost := errors.New("CLUSTERDOWN Hash slot not served")
	redistest.ErrorIf(t, !limiter.FailedAlone(lost) || limiter.FailedAlone(nil),
		"a slot without a master is no failure of the others")
}
