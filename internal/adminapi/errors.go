package adminapi

import (
	"fmt"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// BadInputError says what is wrong with a question.
type BadInputError struct{ text string }

// Error implements error.
func (e BadInputError) Error() string { return e.text }

// BadInput makes a [BadInputError].
func BadInput(format string, args ...any) error { return BadInputError{fmt.Sprintf(format, args...)} }

// UnknownPolicyError names a policy that the running configuration does not have.
type UnknownPolicyError struct{ Name string }

// Error implements error.
func (e UnknownPolicyError) Error() string {
	return fmt.Sprintf("policy %q: the running configuration has none of this name", e.Name)
}

// UnavailableText says why Redis could not be asked.
func UnavailableText(err error) string {
	return strings.TrimPrefix(err.Error(), limiter.ErrUndecided.Error()+": ")
}
