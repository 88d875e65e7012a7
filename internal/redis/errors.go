package redis

import (
	"errors"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/wire"
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
	var caught wire.Failure
	return errors.As(err, &reply) || errors.As(err, &caught)
}
