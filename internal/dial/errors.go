package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"syscall"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Failure is an error that a script caught while it decided one request of a batch.
type Failure string

// Error implements error.
func (f Failure) Error() string { return string(f) }

// Errors of answers that cannot be read: of another form, and with numbers out of their bounds.
var (
	ErrReply = errors.New("unexpected answer of the script")
	ErrValue = errors.New("the script answered with numbers that are none")
)

// foreignValue matches the error that a script caught about a foreign stored value: one of another
// type, or one that the kernels refuse (prelude.lua). Redis 6 writes the place before it. The match
// is anchored, because an error may quote any words.
var foreignValue = regexp.MustCompile(`^(@?user_script: ?[0-9]+: )*-?(WRONGTYPE|FOREIGNVALUE)\b`)

// uncovered matches the error that a script caught about a policy whose calendar periods, as they were sent,
// are not around Redis's time (calendar.lua).
var uncovered = regexp.MustCompile(`^(@?user_script: ?[0-9]+: )*-?NOPERIOD\b`)

// replyKinds are the words by which Redis says that it did not decide. Of a user's missing
// permission inside a script Redis 6 and 7.0 say "The user executing the script can't run this
// command" (or access a key), 7.2, 8 and Valkey "ACL failure in script". Of a Cluster that is down
// they say "while the cluster is down and readonly" where cluster-allow-reads-when-down lets the
// script begin. BUSY is matched with its space: BUSYKEY and BUSYGROUP are other errors.
var replyKinds = []struct{ word, kind string }{
	{"READONLY", "readonly"}, {"LOADING", "loading"}, {"MASTERDOWN", "masterdown"},
	{"CLUSTERDOWN", "clusterdown"}, {"while the cluster is down", "clusterdown"},
	{"OOM", "oom"}, {"MISCONF", "misconf"}, {"NOREPLICAS", "noreplicas"},
	{"TRYAGAIN", "tryagain"}, {"BUSY ", "busy"}, {"NOAUTH", "auth"},
	{"WRONGPASS", "auth"}, {"NOPERM", "auth"}, {"unauthenticated", "auth"},
	{"user executing the script", "auth"}, {"ACL failure", "auth"},
}

// unknownCommand matches what servers say of a command that they do not have, which may have been
// renamed. In a script "Unknown Redis command called from script", of Redict and others with their
// own name, of Valkey with none.
var unknownCommand = regexp.MustCompile(`(?i)\bunknown( [a-z]+)? command\b`)

// incompatibilities are the words by which a server shows that it cannot run the scripts, and what
// they mean. The only part of the scripts' commands that a Redis may not know is KEEPTTL.
var incompatibilities = []struct{ words, meaning string }{
	{"ERR syntax error", "this server does not know KEEPTTL of SET, which Redis has since 6.0"},
	{"'struct'", "the Lua of this server has no library struct"},
	{"'unpack'", "the Lua of this server has no unpack, as that of Redis has"},
	{"Could not find scripting engine", "this server has no Lua, which is a module of Valkey since 9.1"},
	{"bad lua script for redis cluster", "this server allows no script that passes keys in variables"},
}

// incompatibility returns the meaning of an error, empty where it does not show that the server
// cannot run the scripts.
func incompatibility(text string) string {
	for _, i := range incompatibilities {
		if strings.Contains(text, i.words) {
			return i.meaning
		}
	}
	return ""
}

// IsNil reports whether an error is the reply nil of Redis. A sentinel replies so too, to the name of a master that
// it does not watch, which go-redis wraps: nothing was asked of Redis then.
func IsNil(err error) bool { return err == goredis.Nil } //nolint:errorlint // see above

// Undecided wraps a cause with its kind.
func Undecided(err error) error {
	var known *limiter.UndecidedError
	if err == nil || errors.As(err, &known) {
		return err
	}
	kind, cause := KindOf(err), withoutArguments(err)
	switch {
	case kind == limiter.KindIncompatible:
		cause = fmt.Errorf("%s: %w", incompatibility(err.Error()), cause)
	case errors.Is(err, goredis.Nil) && !IsNil(err):
		cause = fmt.Errorf("the sentinels know no master of this name: %w", cause)
	}
	return &limiter.UndecidedError{Kind: kind, Err: cause}
}

// withoutArguments cuts the arguments that Redis quotes of an unknown command: they name client
// keys.
func withoutArguments(err error) error {
	var reply goredis.Error
	if text, _, found := strings.Cut(err.Error(), ", with args beginning with"); found && errors.As(err, &reply) {
		return Failure(text)
	}
	return err
}

// KindOf returns the kind of an error of Redis or of the connection to it.
func KindOf(err error) string {
	var network net.Error
	var credentials *CredentialsError
	switch {
	case errors.As(err, &credentials):
		return "auth"
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded), errors.Is(err, goredis.ErrPoolTimeout):
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return "refused"
	case errors.Is(err, ErrValue):
		return "value"
	case errors.Is(err, ErrReply):
		return "other"
	}
	var reply goredis.Error
	var caught Failure
	isCaught := errors.As(err, &caught)
	if !isCaught && !errors.As(err, &reply) {
		return "connection"
	}
	if isCaught && foreignValue.MatchString(err.Error()) {
		return "value"
	}
	if isCaught && uncovered.MatchString(err.Error()) {
		return limiter.KindClock
	}
	for _, k := range replyKinds {
		if strings.Contains(err.Error(), k.word) {
			return k.kind
		}
	}
	if unknownCommand.MatchString(err.Error()) {
		return "command"
	}
	if incompatibility(err.Error()) != "" {
		return limiter.KindIncompatible
	}
	return "other"
}

// IsRefusal reports whether a server has answered that it does not decide. Its connections stay open.
func IsRefusal(err error) bool {
	var reply goredis.Error
	var caught Failure
	return errors.As(err, &reply) || errors.As(err, &caught) || errors.Is(err, ErrReply)
}

// IsRedirection reports whether a master has answered that another one has the slot, or is getting it. Nothing has
// run. The client of the Cluster follows where it is asked for one key alone.
func IsRedirection(err error) bool {
	return goredis.HasErrorPrefix(err, "MOVED") || goredis.HasErrorPrefix(err, "ASK")
}

// IsNoScript reports whether Redis does not have a script that was named by its hash.
func IsNoScript(err error) bool { return goredis.HasErrorPrefix(err, "NOSCRIPT") }

// CredentialsError is the reason why a new connection has nothing to log in with.
type CredentialsError struct {
	What string // in plain words, for programs that call the field otherwise
	Err  error
}

// Error implements error.
func (e *CredentialsError) Error() string { return e.What + ": " + e.Err.Error() }
