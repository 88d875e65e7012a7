package preflight

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// permission is a command that a Redis user must be allowed, and a harmless way to find out.
type permission struct {
	name    string
	command []any
}

// probeKey is the key of the harmless commands, under the prefix. It holds a string for some seconds, so
// that the commands of lists are refused by its type after they were allowed.
const probeKey = "{" + checkPolicyName + "}:probe"

// permissionsToCount are needed on every server that decides, permissionsToLog by sliding_window_log alone,
// permissionsToRoute on a Cluster, and permissionsToAdminister by the admin API. docs/redis.md lists them.
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
		{"pexpire", []any{"pexpire", key, 5000}},
	}
}

func permissionsToRoute() []permission {
	return []permission{
		{"cluster|slots", []any{"cluster", "slots"}},
		{"command", []any{"command"}},
		{"asking", []any{"asking"}},
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

// tryPermissions finds every command that the user may not run.
func (p *preflight) tryPermissions(ctx context.Context, s *checkedServer) {
	key := p.prefixed(probeKey)
	needed := permissionsToCount(key)
	if p.options.Client.Mode == limiter.Cluster {
		needed = append(needed, permissionsToRoute()...)
	}
	missing, keys, unknown := p.missing(ctx, s, needed)
	logs := permissionsToLog(key)
	if slices.Contains(missing, "+set") || slices.Contains(s.absent, "set") || keys {
		// The key is not there, so that a push would make one, perhaps without an end.
		logs = slices.DeleteFunc(logs, func(r permission) bool { return r.name == "rpush" })
	}
	var missingLogs []string
	if unknown == nil {
		missingLogs, _, unknown = p.missing(ctx, s, logs)
	}
	if keys {
		missing = append(missing, "~"+p.prefixed("*"))
	}
	s.logs = p.options.Logs || len(missingLogs) == 0
	if p.options.Logs {
		missing, missingLogs = append(missing, missingLogs...), nil
	}
	if len(s.absent) > 0 {
		p.failed("commands", s.address, "unknown to this Redis: "+strings.Join(s.absent, " "), "remove rename-command for these from Redis's configuration")
		s.scriptAdvice = "see the check of commands"
	}
	switch rights, logRights := strings.Join(missing, " "), strings.Join(missingLogs, " "); {
	case rights != "":
		s.scriptAdvice = grantAdvice
		p.failed("permissions", s.address, "missing: "+rights, p.grant(rights))
	case unknown != nil:
		p.warn("permissions", s.address, "unknown: "+unknown.Error(), checkAgain)
	case logRights != "":
		p.warn("permissions", s.address, "missing for "+logAlgorithm+", which this configuration does not use: "+logRights, p.grant(logRights))
	default:
		p.ok("permissions", s.address, "all commands that deciding takes")
	}
}

// checkAgain is the advice where an answer did not come.
const checkAgain = "check again when Redis answers"

// tryAdminPermissions finds every command of the admin API that the user may not run.
func (p *preflight) tryAdminPermissions(ctx context.Context, s *checkedServer) {
	s.absent = nil
	missing, _, unknown := p.missing(ctx, s, permissionsToAdminister(p.prefixed(probeKey)))
	for _, command := range s.absent {
		missing = append(missing, command+" (unknown to this Redis)")
	}
	switch rights := strings.Join(missing, " "); {
	case rights != "":
		p.warn("admin rights", s.address, "missing for the commands state and reset: "+rights, p.grant(rights))
	case unknown != nil:
		p.warn("admin rights", s.address, "unknown: "+unknown.Error(), checkAgain)
	default:
		p.ok("admin rights", s.address, "all commands that state and reset take")
	}
}

// missing runs each command, and lists those that are forbidden and whether keys are. Those that the server
// does not have are added to its absent ones. Where one has no answer that tells, unknown says why, and the
// rest are not tried.
func (p *preflight) missing(ctx context.Context, s *checkedServer, rights []permission) (missing []string, keys bool, unknown error) {
	for _, r := range rights {
		err := s.client.Do(ctx, r.command...).Err()
		switch {
		case limiter.IsUnknownCommand(err):
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

// isPermitted tells whether an answer is one to a command that is allowed. Redis looks at the user and his
// rights before anything else, so that all answers but those about them are: that of a wrong type, MOVED,
// and BUSY too.
func isPermitted(err error) bool {
	var reply redis.Error
	return err == nil || (errors.As(err, &reply) && !isForbidden(err) &&
		!redis.HasErrorPrefix(err, "NOAUTH") && !redis.HasErrorPrefix(err, "WRONGPASS"))
}

// prefixed is a name under the configured prefix.
func (p *preflight) prefixed(name string) string {
	if p.options.Naming.Prefix == "" {
		return name
	}
	return p.options.Naming.Prefix + ":" + name
}
