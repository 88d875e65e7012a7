package redis

import (
	"errors"
	"net"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// IsUnknownCommand reports whether an error is Redis's answer to a command that it does not have:
// the command was renamed, or this is no Redis.
func IsUnknownCommand(err error) bool {
	var reply goredis.Error
	return errors.As(err, &reply) && strings.HasPrefix(strings.ToLower(reply.Error()), "err unknown command")
}

// Answered reports whether an error is Redis's answer, rather than the lack of one.
func Answered(err error) bool {
	var reply goredis.Error
	var caught dial.Failure
	return errors.As(err, &reply) || errors.As(err, &caught)
}

// halfwayError is an error of a request some of whose checks may have changed before it.
type halfwayError struct{ error }

// Unwrap returns what the script caught.
func (e halfwayError) Unwrap() error { return e.error }

// redisError makes an error of the text that the script caught, and of whether some checks may have changed before.
func redisError(text any, halfway bool) error {
	caught, isText := text.(string)
	if !isText {
		return dial.Undecided(dial.ErrReply)
	}
	caught = strings.TrimRight(caught, "\r\n") // of Redis 6.0
	caught, changed := strings.CutPrefix(caught, "CHANGED ")
	if halfway || changed {
		return dial.Undecided(halfwayError{dial.Failure(caught)})
	}
	return dial.Undecided(dial.Failure(caught))
}

// MayHaveRun reports whether a request that Redis did not decide may have been charged there all the
// same: it was sent, and no answer came, or none that could be read.
func MayHaveRun(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		if _, single := err.(*limiter.UndecidedError); !single { //nolint:errorlint // as above
			return slices.ContainsFunc(joined.Unwrap(), MayHaveRun)
		}
	}
	var network *net.OpError
	var halfway halfwayError
	switch {
	case errors.As(err, &halfway):
		return true
	case err == nil, errors.Is(err, limiter.ErrUnsent), errors.Is(err, limiter.ErrClosed), errors.Is(err, goredis.ErrPoolTimeout),
		errors.As(err, &network) && network.Op == "dial":
		return false
	case errors.Is(err, dial.ErrReply), errors.Is(err, dial.ErrValue):
		return true
	}
	return limiter.Kind(err) == "timeout" || limiter.Kind(err) == "connection"
}
