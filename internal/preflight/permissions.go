package preflight

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// permission is a command that a Redis user needs, with a harmless call that tests it.
type permission struct {
	name    string
	command []any
}

// probeKey is the key of the harmless calls, under the prefix. It holds a string for some seconds, so that
// commands for lists fail by its type once they are permitted.
const probeKey = "{" + checkPolicyName + "}:probe"

// permissionsToCount lists the commands that every server that decides needs. permissionsToLog is for
// sliding_window_log alone, permissionsToRun for max_concurrent, permissionsToRoute for a Cluster, and
// permissionsToAdminister for the admin API. docs/redis.md lists them.
func permissionsToCount(key string) []permission {
	const unknown = "0000000000000000000000000000000000000000" // answered with NOSCRIPT
	return []permission{
		{"ping", []any{"ping"}},
		{"time", []any{"time"}},
		{"get", []any{"get", key}},
		{"set", []any{"set", key, "1", "px", 5000}},
		{"eval", []any{"eval", "return 1", 0}},
		{"evalsha", []any{"evalsha", unknown, 0}},
	}
}

func permissionsToLog(key string) []permission {
	return []permission{
		{"llen", []any{"llen", key}},
		{"lindex", []any{"lindex", key, 0}},
		{"lrange", []any{"lrange", key, 0, 0}},
		{"lset", []any{"lset", key, 0, "1"}},
		{"ltrim", []any{"ltrim", key, 0, 0}},
		{"rpush", []any{"rpush", key, "1"}},
	}
}

func permissionsToRun(key string) []permission {
	return []permission{
		{"hdel", []any{"hdel", key, "field"}},
		{"hgetall", []any{"hgetall", key}},
		{"hmget", []any{"hmget", key, "field"}},
		{"hset", []any{"hset", key, "field", "1"}},
	}
}

func permissionsToRoute() []permission {
	return []permission{
		{"cluster|slots", []any{"cluster", "slots"}},
		{"command", []any{"command"}},
		{"asking", []any{"asking"}},
	}
}

// permissionsToChallenge lists the commands for the secret of challenges. The SET that is permitted has no effect: its
// options exclude each other.
func permissionsToChallenge(key string) []permission {
	return []permission{
		{"get", []any{"get", key}},
		{"set", []any{"set", key, "1", "nx", "xx"}},
	}
}

func permissionsToAdminister(key string) []permission {
	return []permission{
		{"type", []any{"type", key}},
		{"pttl", []any{"pttl", key}},
		{"scan", []any{"scan", 0, "match", key, "count", 1}},
		{"unlink", []any{"unlink", key}},
	}
}

// permissionsToOverride lists the commands for the entries of overrides. The calls fail by the type of the
// reserved key once they are permitted, and touch no override.
func permissionsToOverride(key string) []permission {
	return []permission{
		{"hdel", []any{"hdel", key, "field"}},
		{"hget", []any{"hget", key, "field"}},
		{"hlen", []any{"hlen", key}},
		{"hscan", []any{"hscan", key, 0}},
		{"hset", []any{"hset", key, "field", "1"}},
		{"unlink", []any{"unlink", key}},
	}
}

// tryPermissions reports every command that the user may not run.
func (p *preflight) tryPermissions(ctx context.Context, s *checkedServer) {
	key := p.prefixed(probeKey)
	needed := permissionsToCount(key)
	if p.options.Client.Mode == dial.Cluster {
		needed = append(needed, permissionsToRoute()...)
	}
	if p.options.Challenges && p.options.Naming.Secret == "" {
		needed = append(needed, permissionsToChallenge(p.options.Naming.Reserved("challenge", "secret"))...)
	}
	missing, keys, unknown := p.missing(ctx, s, needed)
	hasKey := !slices.Contains(missing, "+set") && !slices.Contains(s.absent, "set") && !keys
	if keys {
		missing = append(missing, "~"+p.prefixed("*"))
	}
	needed = nil
	if p.options.Logs {
		needed = permissionsToLog(key)
	}
	if p.options.Runs {
		needed = append(needed, permissionsToRun(key)...)
	}
	if len(needed) > 0 {
		needed = append(needed, permission{"pexpire", []any{"pexpire", key, 5000}})
	}
	if !hasKey {
		// The key does not exist, so these would create one, perhaps without a TTL.
		needed = slices.DeleteFunc(needed, func(r permission) bool { return r.name == "rpush" || r.name == "hset" })
	}
	if unknown == nil {
		var lacks []string
		lacks, _, unknown = p.missing(ctx, s, needed)
		missing = append(missing, lacks...)
	}
	if len(s.absent) > 0 {
		p.failed("commands", s.address, "unknown to this Redis: "+strings.Join(s.absent, " "), "remove rename-command for these from the configuration of Redis")
		s.scriptAdvice = "see the check of commands"
	}
	switch commands := strings.Join(missing, " "); {
	case commands != "":
		s.scriptAdvice = grantAdvice
		p.failed("permissions", s.address, "missing: "+commands, p.grant(commands))
	case unknown != nil:
		p.warn("permissions", s.address, "unknown: "+unknown.Error(), checkAgain)
	default:
		p.ok("permissions", s.address, "all commands that deciding needs")
	}
}

// checkAgain is the advice if an answer is missing.
const checkAgain = "check again when Redis answers"

// tryAdminPermissions reports every command of the admin API that the user may not run.
func (p *preflight) tryAdminPermissions(ctx context.Context, s *checkedServer) {
	p.tryOptional(ctx, s, "admin rights", "state and reset", permissionsToAdminister(p.prefixed(probeKey)))
}

// tryOverridePermissions reports every command of overrides that the user may not run.
func (p *preflight) tryOverridePermissions(ctx context.Context, s *checkedServer) {
	key := p.prefixed(probeKey)
	needed := permissionsToOverride(key)
	if !isPermitted(s.client.Set(ctx, key, "1", 5*time.Second).Err()) {
		// The key does not exist, so a write would create it without a TTL.
		needed = slices.DeleteFunc(needed, func(r permission) bool { return r.name == "hset" })
	}
	p.tryOptional(ctx, s, "overrides", "override and overrides", needed)
}

// tryOptional reports what is missing for commands that decisions do not need.
func (p *preflight) tryOptional(ctx context.Context, s *checkedServer, check, commands string, needed []permission) {
	s.absent = nil
	missing, _, unknown := p.missing(ctx, s, needed)
	for _, command := range s.absent {
		missing = append(missing, command+" (unknown to this Redis)")
	}
	switch list := strings.Join(missing, " "); {
	case list != "":
		p.warn(check, s.address, "missing for the commands "+commands+": "+list, p.grant(list))
	case unknown != nil:
		p.warn(check, s.address, "unknown: "+unknown.Error(), checkAgain)
	default:
		p.ok(check, s.address, "all commands that "+commands+" need")
	}
}

// missing runs each command, and returns those that are forbidden and whether the keys are. Commands that
// the server does not have are added to its absent ones. An answer that proves neither is returned as unknown
// and ends the run.
func (p *preflight) missing(ctx context.Context, s *checkedServer, permissions []permission) (missing []string, keys bool, unknown error) {
	for _, r := range permissions {
		err := s.client.Do(ctx, r.command...).Err()
		switch {
		case redis.IsUnknownCommand(err):
			s.absent = append(s.absent, r.name)
		case isPermitted(err):
		case !isForbidden(err):
			return missing, keys, err
		case strings.Contains(err.Error(), "command"):
			missing = append(missing, "+"+r.name)
		default:
			keys = true
		}
	}
	return missing, keys, nil
}

// isPermitted reports whether an answer proves that a command is permitted. Redis checks the user and the
// permissions first, so every other answer does, also WRONGTYPE, MOVED and BUSY.
func isPermitted(err error) bool {
	var reply goredis.Error
	return err == nil || (errors.As(err, &reply) && !isForbidden(err) &&
		!goredis.HasErrorPrefix(err, "NOAUTH") && !goredis.HasErrorPrefix(err, "WRONGPASS"))
}

// prefixed returns a name under the configured prefix.
func (p *preflight) prefixed(name string) string {
	if p.options.Naming.Prefix == "" {
		return name
	}
	return p.options.Naming.Prefix + ":" + name
}
