package dial

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// This file logs new connections in with what the providers of a connection return at that moment, and sessions.go
// the open ones.

// askAtEachConnection makes the client ask the providers of the connection and read certificates whenever it connects.
// It returns the sessions of the client; nil without Credentials.
func (o *Connection) askAtEachConnection(u *goredis.UniversalOptions) (s *sessions) {
	if o.Credentials != nil {
		s = newSessions(&loginSource{what: "credentials", provider: o.Credentials, username: o.Username}, o.OnLogin)
		u.CredentialsProviderContext = s.login
		// Each connection becomes the next one in its turn, and pipelines have no pool of their own.
		u.PoolFIFO, u.PipelinePoolSize = true, -1
	}
	if o.SentinelCredentials != nil {
		logins := &loginSource{what: "sentinel credentials", provider: o.SentinelCredentials, username: o.SentinelUsername}
		// The client asks no provider for its sentinels, so that they are connected to without a
		// user, and logged in after that.
		u.SentinelUsername, u.SentinelPassword = "", ""
		u.OnConnect = func(ctx context.Context, conn *goredis.Conn) error {
			if isMaster(conn) {
				return nil
			}
			login, err := logins.get(ctx)
			if err != nil {
				return err
			}
			return logIn(ctx, conn, login)
		}
	}
	if load := o.LoadTLS; load != nil {
		u.TLSConfig = nil
		u.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			config, err := load()
			if err != nil {
				return nil, &CredentialsError{What: "tls", Err: err}
			}
			return (&tls.Dialer{NetDialer: netDialer(), Config: config}).DialContext(ctx, network, address)
		}
	}
	return s
}

// isMaster reports whether a connection of a client with sentinels leads to the master. The client
// calls all of these by one name, since their address changes.
func isMaster(conn *goredis.Conn) bool {
	return strings.HasPrefix(conn.String(), "Redis<FailoverClient ")
}

// netDialer returns the dialer that the client uses where it has none of its own.
func netDialer() *net.Dialer {
	return &net.Dialer{Timeout: ConnectBudget, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3,
	}}
}
