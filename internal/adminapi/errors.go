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

// AbsentError says what a question is about that does not exist.
type AbsentError struct{ text string }

// Error implements error.
func (e AbsentError) Error() string { return e.text }

// Absent makes an [AbsentError].
func Absent(format string, args ...any) error { return AbsentError{fmt.Sprintf(format, args...)} }

// ConflictError says what stands in the way of a change.
type ConflictError struct{ text string }

// Error implements error.
func (e ConflictError) Error() string { return e.text }

// Conflict makes a [ConflictError].
func Conflict(format string, args ...any) error { return ConflictError{fmt.Sprintf(format, args...)} }

// UnavailableError says why Redis could not be asked for a change, which was then not made.
type UnavailableError struct{ text string }

// Error implements error.
func (e UnavailableError) Error() string { return e.text }

// Unavailable makes an [UnavailableError] of the reason.
func Unavailable(err error) error { return UnavailableError{UnavailableText(err)} }
