package dial

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
)

// This file logs new connections in with what the files of the options hold at that moment. Redis
// asks for a password once per connection, so that connections outlive the password that they were
// opened with.

// passwordIn reads a file of the options.
func passwordIn(what, path string) (string, error) {
	password, err := ReadPassword(path)
	if err != nil {
		return "", &wire.CredentialsError{What: what, Err: err}
	}
	return password, nil
}

// readAtEachConnection makes the client read the files of the options whenever it connects.
func (o *Options) readAtEachConnection(u *goredis.UniversalOptions) {
	if path, username := o.PasswordFile, o.Username; path != "" {
		u.CredentialsProviderContext = func(context.Context) (string, string, error) {
			password, err := passwordIn("password file", path)
			return username, password, err
		}
	}
	if path, username := o.SentinelPasswordFile, o.SentinelUsername; path != "" {
		// The client asks no provider for its sentinels, so that they are connected to without a
		// user, and logged in after that.
		u.SentinelUsername, u.SentinelPassword = "", ""
		u.OnConnect = func(ctx context.Context, conn *goredis.Conn) error {
			if isMaster(conn) {
				return nil
			}
			return logInToSentinel(ctx, conn, username, path)
		}
	}
	if load := o.LoadTLS; load != nil {
		u.TLSConfig = nil
		u.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			config, err := load()
			if err != nil {
				return nil, &wire.CredentialsError{What: "tls", Err: err}
			}
			return (&tls.Dialer{NetDialer: netDialer(), Config: config}).DialContext(ctx, network, address)
		}
	}
}

// isMaster reports whether a connection of a client with sentinels leads to the master. The client
// calls all of these by one name, since their address changes.
func isMaster(conn *goredis.Conn) bool {
	return strings.HasPrefix(conn.String(), "Redis<FailoverClient ")
}

func logInToSentinel(ctx context.Context, conn *goredis.Conn, username, path string) error {
	password, err := passwordIn("sentinel password file", path)
	switch {
	case err != nil:
		return err
	case username == "":
		return conn.Auth(ctx, password).Err()
	}
	return conn.AuthACL(ctx, username, password).Err()
}

// netDialer returns the dialer that the client uses where it has none of its own.
func netDialer() *net.Dialer {
	return &net.Dialer{Timeout: ConnectBudget, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3,
	}}
}
