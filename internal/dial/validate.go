package dial

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Validate reports what is wrong with the connection, by a [*limiter.FieldError]. It quotes no text: a secret may
// stand in the wrong field.
func (o *Connection) Validate() error {
	wrong := func(field, problem string) error { return &limiter.FieldError{Field: field, Problem: problem} }
	switch {
	case len(o.Addresses) == 0:
		return wrong("Addresses", "name at least one host:port")
	case o.Mode != "" && o.Mode != Standalone && o.Mode != Sentinel && o.Mode != Cluster:
		return wrong("Mode", "use standalone, sentinel or cluster")
	case o.Mode == Sentinel && o.Master == "":
		return wrong("Master", "mode sentinel needs the master's name")
	case o.Mode != Sentinel && o.Master != "":
		return wrong("Master", "only mode sentinel has one")
	case o.Mode != Sentinel && (o.SentinelUsername != "" || o.SentinelPassword != ""):
		return wrong("SentinelUsername, SentinelPassword", "only mode sentinel has them")
	case o.Mode != Sentinel && o.SentinelCredentials != nil:
		return wrong("SentinelCredentials", "only mode sentinel has it")
	case o.Password != "" && o.Credentials != nil:
		return wrong("Password, Credentials", "leave one of them out")
	case o.SentinelPassword != "" && o.SentinelCredentials != nil:
		return wrong("SentinelPassword, SentinelCredentials", "leave one of them out")
	case o.Mode == Cluster && o.DB != 0:
		return wrong("DB", "mode cluster uses database 0 alone; leave it out")
	case o.DB < 0:
		return &limiter.FieldError{Field: "DB", Value: strconv.Itoa(o.DB), Problem: "use a number from 0"}
	case o.PoolSize < 0 || o.PoolSize > MaxPoolSize:
		return &limiter.FieldError{Field: "PoolSize", Value: strconv.Itoa(o.PoolSize),
			Problem: fmt.Sprintf("use a whole number from 1 to %d", MaxPoolSize)}
	case (o.Mode == "" || o.Mode == Standalone) && len(o.Addresses) > 1:
		return wrong("Addresses", "mode standalone has one; for several use mode sentinel or cluster")
	case o.Timeout < 0:
		return &limiter.FieldError{Field: "Timeout", Value: o.Timeout.String(), Problem: "use a duration above 0"}
	}
	if err := o.validNames(); err != nil {
		return err
	}
	return cmp.Or(o.validUsers(), o.validAddresses())
}

func isSocket(address string) bool { return strings.HasPrefix(address, "/") }

// ErrUseParseURL is in the error about a field that holds a URL: [ParseURL] reads these.
var ErrUseParseURL = errors.New("ParseURL reads URLs")

// urlInPlace returns the error about a URL in a field.
func urlInPlace(field, value, problem string) error {
	return fmt.Errorf("%w; %w", &limiter.FieldError{Field: field, Value: value, Problem: problem}, ErrUseParseURL)
}

// validNames refuses a URL in place of a name. Redis, its client and the commands repeat names in
// errors and advice, and a URL may have a password in it.
func (o *Connection) validNames() error {
	const user = "use the name of an ACL user"
	switch {
	case strings.ContainsAny(o.Master, "@/"):
		return urlInPlace("Master", "", "use the name that the sentinels watch")
	case strings.Contains(o.Username, "://"):
		return urlInPlace("Username", "", user)
	case strings.Contains(o.SentinelUsername, "://"):
		return urlInPlace("SentinelUsername", "", user)
	}
	return nil
}

// validUsers refuses a user without a password: the client of Redis would not log in, and stay the default user.
func (o *Connection) validUsers() error {
	const problem = "needs a password; in a URL a password alone comes after a colon, redis://:<password>@<host>"
	switch {
	case o.Username != "" && o.Password == "" && o.Credentials == nil:
		return &limiter.FieldError{Field: "Username", Value: "", Problem: problem}
	case o.SentinelUsername != "" && o.SentinelPassword == "" && o.SentinelCredentials == nil:
		return &limiter.FieldError{Field: "SentinelUsername", Value: "", Problem: problem}
	}
	return nil
}

// validAddresses refuses addresses that cannot be dialed. Where there are several, the error's value
// counts them from 1.
func (o *Connection) validAddresses() error {
	for i, address := range o.Addresses {
		which := ""
		if len(o.Addresses) > 1 {
			which = strconv.Itoa(i + 1)
		}
		if strings.Contains(address, "://") || !isSocket(address) && strings.ContainsAny(address, "@/") {
			return urlInPlace("Addresses", which, addressForm)
		}
		if problem := addressProblem(o.Mode, address); problem != "" {
			return &limiter.FieldError{Field: "Addresses", Value: which, Problem: problem}
		}
	}
	return nil
}

const addressForm = "use host:port, or the absolute path of a socket"

// addressProblem returns what is wrong with an address; empty where nothing is.
func addressProblem(mode Mode, address string) string {
	switch {
	case isSocket(address) && (mode == Sentinel || mode == Cluster):
		return fmt.Sprintf("mode %s needs host:port", mode)
	case isSocket(address):
		return ""
	case strings.Contains(address, ","):
		return "use host:port; several are values of their own, without commas"
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return addressForm
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "the port is no number from 1 to 65535"
	}
	return ""
}
