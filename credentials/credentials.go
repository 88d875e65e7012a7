// Package credentials decides what connections to Redis log in with if that changes while they are open. A source of
// logins is a [Provider]. Caddy modules of the namespace redis_ratelimit.credentials implement it; package dial asks it.
package credentials

import (
	"context"
	"fmt"
	"time"
)

// Provider returns logins. It must be safe for concurrent use. A store keeps it over reloads, so that it works after
// the Cleanup of its module too.
type Provider interface {
	// Login returns what is to log in with now. The last login stays in use while it fails. A provider whose logins
	// have an end is asked once they are due, others at each new connection and each second while connections are
	// open. Errors must hold no secret: they are logged.
	Login(ctx context.Context) (Login, error)

	// Identity tells providers of a type apart, by their settings. It must hold no secret. Providers with the same
	// identity return the same logins.
	Identity() string
}

// Login is what a connection logs in with.
type Login struct {
	Username string    // empty: the user of the options
	Password string    `json:"-"` // or a token; required
	End      time.Time // when the password ceases to be valid; zero: unknown
}

// Format writes nothing of the login, whatever the verb.
func (Login) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, "[a login]") }
