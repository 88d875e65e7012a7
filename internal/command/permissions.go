package command

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
)

// probeKey is the key of the harmless calls, under the prefix. It holds a string for some seconds, so that
// commands for lists fail by its type once they are permitted.
const probeKey = "{" + checkPolicyName + "}:probe"

// The harmless calls that try the commands that a Redis user needs. KEY stands for the probe's key, SECRET for that of
// challenges. docs/redis.md lists the commands.
var (
	callsToCount = []string{"ping", "time", "get KEY", "set KEY 1 px 5000", "eval return 0",
		"evalsha 0000000000000000000000000000000000000000 0"}
	callsToLog        = []string{"llen KEY", "lindex KEY 0", "lrange KEY 0 0", "lset KEY 0 1", "ltrim KEY 0 0", "rpush KEY 1"}
	callsToRun        = []string{"hdel KEY field", "hgetall KEY", "hmget KEY field", hsetCall}
	callsToRoute      = []string{"cluster slots", "command", "asking"}
	callsToAdminister = []string{"type KEY", "pttl KEY", "scan 0 match KEY count 1", "unlink KEY"}

	// The SET that is permitted has no effect: its options exclude each other.
	callsToChallenge = []string{"get SECRET", "set SECRET 1 nx xx"}

	// They fail by the type of the probe's key once they are permitted, and touch no override.
	callsToOverride = []string{"hdel KEY field", "hget KEY field", "hlen KEY", "hscan KEY 0", hsetCall, "unlink KEY"}
)

// hsetCall has a field without a value, which Redis refuses once the command is permitted, whatever the key is.
const hsetCall = "hset KEY field 1 other"

// The commands of the calls that need the right to read the probe's key, and to write it.
var (
	readers = []string{"get", "llen", "lindex", "lrange", "hgetall", "hmget"}
	writers = []string{"set", "lset", "ltrim", "rpush", "hdel", "hset", "pexpire"}
)

// rights are what calls show of a user's permissions.
type rights struct {
	missing  []string // commands that are forbidden
	untried  []string // commands of which the server does not say whether they are permitted
	keys     bool     // the probe's key is forbidden
	database bool     // the database is forbidden, as users of Valkey 9.1 can have it
	absent   []string // commands that the server does not have
	set      bool     // the probe's key holds a string, or this server refuses to write it
	reads    bool     // a command that reads the probe's key is permitted
	writes   bool     // a command that writes it is permitted
	unknown  error    // ended the calls: an answer that proves neither
}

// tryPermissions reports every command that the user may not run.
func (p *preflight) tryPermissions(ctx context.Context, s *checkedServer) {
	needed := slices.Clone(callsToCount)
	if p.options.Client.Mode == dial.Cluster {
		needed = append(needed, callsToRoute...)
	}
	if p.options.Challenges && p.options.Naming.Secret == "" {
		needed = append(needed, callsToChallenge...)
	}
	if p.options.Logs {
		needed = append(needed, callsToLog...)
	}
	if p.options.Runs {
		needed = append(needed, callsToRun...)
	}
	if p.options.Logs || p.options.Runs {
		needed = append(needed, "pexpire KEY 5000")
	}
	var r rights
	p.try(ctx, s, &r, needed)
	if len(r.absent) > 0 {
		p.failed("commands", s.address, "unknown to this Redis: "+strings.Join(r.absent, " "), renamedAdvice)
		s.scriptAdvice = "see the check of commands"
	}
	missing := r.missing
	if r.database {
		missing = append(missing, p.databaseRight())
	} else if r.keys {
		missing = append(missing, p.keyRight())
	}
	untried := r.untried
	if !r.keys && (!r.reads || !r.writes) { // the rights to a command and a database are checked before that to its keys
		untried = append(untried, p.keyRight())
	}
	detail, grants := "missing: "+strings.Join(missing, " "), slices.Concat(missing, untried)
	if len(untried) > 0 {
		detail += "; untried without these: " + strings.Join(untried, " ")
	}
	switch {
	case len(missing) > 0:
		s.scriptAdvice = grantAdvice
		p.failed("permissions", s.address, detail, p.grant(strings.Join(grants, " ")))
	case r.unknown != nil:
		p.warn("permissions", s.address, "unknown: "+r.unknown.Error(), checkAgain)
	default:
		p.ok("permissions", s.address, "all commands that deciding needs")
	}
}

// renamedAdvice is the advice about commands that Redis does not have: no user can be permitted to run them.
const renamedAdvice = "remove rename-command for these from the configuration of Redis"

// checkAgain is the advice if an answer is missing.
const checkAgain = "check again when Redis answers"

// tryAdminPermissions reports every command of the admin API that the user may not run.
func (p *preflight) tryAdminPermissions(ctx context.Context, s *checkedServer) {
	p.tryOptional(ctx, s, "admin rights", "state and reset", callsToAdminister)
}

// tryOverridePermissions reports every command of overrides that the user may not run.
func (p *preflight) tryOverridePermissions(ctx context.Context, s *checkedServer) {
	p.tryOptional(ctx, s, "overrides", "override and overrides", callsToOverride)
}

// tryOptional reports what is missing for commands that decisions do not need.
func (p *preflight) tryOptional(ctx context.Context, s *checkedServer, check, commands string, calls []string) {
	var r rights
	p.try(ctx, s, &r, calls)
	missing, advice := r.missing, []string(nil)
	if len(missing) > 0 {
		advice = append(advice, p.grant(strings.Join(missing, " ")))
	}
	if len(r.absent) > 0 {
		advice = append(advice, renamedAdvice)
	}
	for _, command := range r.absent {
		missing = append(missing, command+" (unknown to this Redis)")
	}
	switch {
	case len(missing) > 0:
		p.warn(check, s.address, "missing for the commands "+commands+": "+strings.Join(missing, " "), strings.Join(advice, "; "))
	case r.database:
		p.warn(check, s.address, "unknown: the user may not use the database", "see the check of permissions")
	case r.unknown != nil:
		p.warn(check, s.address, "unknown: "+r.unknown.Error(), checkAgain)
	default:
		p.ok(check, s.address, "all commands that "+commands+" need")
	}
}

// try runs each call, and notes what is forbidden. RPUSH would create a list without a TTL where neither the probe's
// key nor a missing right prevents that: it is left out then.
func (p *preflight) try(ctx context.Context, s *checkedServer, r *rights, calls []string) {
	names := map[string]string{"KEY": p.prefixed(probeKey), "SECRET": p.options.Naming.Reserved("challenge", "secret")}
	for _, call := range calls {
		words := strings.Fields(call)
		name, command := words[0], []any{}
		if name == "cluster" {
			name += "|" + words[1]
		}
		if name == "rpush" && !r.set && !r.keys && !r.database {
			r.untried = append(r.untried, "+rpush")
			continue
		}
		for _, word := range words {
			command = append(command, cmp.Or(names[word], word))
		}
		err := s.client.Do(ctx, command...).Err()
		switch {
		case redis.IsUnknownCommand(err):
			r.absent = append(r.absent, name)
		case isPermitted(err):
			onKey := slices.Contains(words, "KEY")
			r.set = r.set || onKey && name == "set"
			r.reads = r.reads || onKey && slices.Contains(readers, name)
			r.writes = r.writes || onKey && slices.Contains(writers, name)
		case !isForbidden(err):
			r.unknown = err
			return
		case refusedDatabase(err.Error()): // before the right to the command is checked
			r.database = true
			r.untried = append(r.untried, "+"+name)
		case strings.Contains(err.Error(), "command"):
			r.missing = append(r.missing, "+"+name)
		default:
			r.keys = true
		}
	}
}

// keyRight is the permission for the keys of the module.
func (p *preflight) keyRight() string { return "~" + p.prefixed("*") }

// databaseRight is the permission for the database. Valkey replaces those that the user had by it.
func (p *preflight) databaseRight() string { return "db=" + strconv.Itoa(p.options.Client.DB) }

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
