package preflight

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// probeKey is the key of the harmless calls, under the prefix. It holds a string for some seconds, so that
// commands for lists fail by its type once they are permitted.
const probeKey = "{" + checkPolicyName + "}:probe"

// The harmless calls that try the commands that a Redis user needs. KEY stands for the probe's key, SECRET for that of
// challenges. docs/redis.md lists the commands.
var (
	callsToCount      = []string{"ping", "time", "get KEY", "set KEY 1 px 5000", "eval return 0", "evalsha 0000000000000000000000000000000000000000 0"}
	callsToLog        = []string{"llen KEY", "lindex KEY 0", "lrange KEY 0 0", "lset KEY 0 1", "ltrim KEY 0 0", "rpush KEY 1"}
	callsToRun        = []string{"hdel KEY field", "hgetall KEY", "hmget KEY field", "hset KEY field 1"}
	callsToRoute      = []string{"cluster slots", "command", "asking"}
	callsToAdminister = []string{"type KEY", "pttl KEY", "scan 0 match KEY count 1", "unlink KEY"}

	// The SET that is permitted has no effect: its options exclude each other.
	callsToChallenge = []string{"get SECRET", "set SECRET 1 nx xx"}

	// They fail by the type of the probe's key once they are permitted, and touch no override.
	callsToOverride = []string{"hdel KEY field", "hget KEY field", "hlen KEY", "hscan KEY 0", "hset KEY field 1", "unlink KEY"}
)

// tryPermissions reports every command that the user may not run.
func (p *preflight) tryPermissions(ctx context.Context, s *checkedServer) {
	needed := slices.Clone(callsToCount)
	if p.options.Client.Mode == dial.Cluster {
		needed = append(needed, callsToRoute...)
	}
	if p.options.Challenges && p.options.Naming.Secret == "" {
		needed = append(needed, callsToChallenge...)
	}
	missing, keys, unknown := p.missing(ctx, s, true, needed)
	hasKey := !slices.Contains(missing, "+set") && !slices.Contains(s.absent, "set") && !keys
	if keys {
		missing = append(missing, "~"+p.prefixed("*"))
	}
	var calls []string
	if p.options.Logs {
		calls = append(calls, callsToLog...)
	}
	if p.options.Runs {
		calls = append(calls, callsToRun...)
	}
	if len(calls) > 0 {
		calls = append(calls, "pexpire KEY 5000")
	}
	if unknown == nil {
		var lacks []string
		lacks, _, unknown = p.missing(ctx, s, hasKey, calls)
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
	p.tryOptional(ctx, s, "admin rights", "state and reset", true, callsToAdminister)
}

// tryOverridePermissions reports every command of overrides that the user may not run.
func (p *preflight) tryOverridePermissions(ctx context.Context, s *checkedServer) {
	hasKey := isPermitted(s.client.Set(ctx, p.prefixed(probeKey), "1", 5*time.Second).Err())
	p.tryOptional(ctx, s, "overrides", "override and overrides", hasKey, callsToOverride)
}

// tryOptional reports what is missing for commands that decisions do not need.
func (p *preflight) tryOptional(ctx context.Context, s *checkedServer, check, commands string, hasKey bool, calls []string) {
	s.absent = nil
	missing, _, unknown := p.missing(ctx, s, hasKey, calls)
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

// missing runs each call, and returns the commands that are forbidden and whether the keys are. Commands that
// the server does not have are added to its absent ones. An answer that proves neither is returned as unknown
// and ends the run. Without the probe's key, calls that would create one, perhaps without a TTL, are left out.
func (p *preflight) missing(ctx context.Context, s *checkedServer, hasKey bool, calls []string) (missing []string, keys bool, unknown error) {
	names := map[string]string{"KEY": p.prefixed(probeKey), "SECRET": p.options.Naming.Reserved("challenge", "secret")}
	for _, call := range calls {
		words := strings.Fields(call)
		name, command := words[0], []any{}
		if name == "cluster" {
			name += "|" + words[1]
		}
		if !hasKey && (name == "rpush" || name == "hset") {
			continue
		}
		for _, word := range words {
			command = append(command, cmp.Or(names[word], word))
		}
		err := s.client.Do(ctx, command...).Err()
		switch {
		case redis.IsUnknownCommand(err):
			s.absent = append(s.absent, name)
		case isPermitted(err):
		case !isForbidden(err):
			return missing, keys, err
		case strings.Contains(err.Error(), "command"):
			missing = append(missing, "+"+name)
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
