package adminapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// BadInput says what is wrong with a question.
func BadInput(format string, args ...any) error {
	return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: fmt.Errorf(format, args...)}
}

// Absent says what a question is about that does not exist.
func Absent(format string, args ...any) error {
	return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: fmt.Errorf(format, args...)}
}

// Conflict says what stands in the way of a change.
func Conflict(format string, args ...any) error {
	return caddy.APIError{HTTPStatus: http.StatusConflict, Err: fmt.Errorf(format, args...)}
}

// Unavailable says why Redis could not be asked for a change, which was then not made.
func Unavailable(err error) error {
	return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: errors.New(UnavailableText(err))}
}

// UnavailableText says why Redis could not be asked.
func UnavailableText(err error) string {
	return strings.TrimPrefix(err.Error(), limiter.ErrUndecided.Error()+": ")
}
