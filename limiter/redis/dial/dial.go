// Package dial makes clients of go-redis that a redis.Store can decide by: they never send a command twice.
package dial

import (
	"crypto/tls"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
)

// Mode is a kind of Redis deployment.
type Mode string

// The modes.
const (
	Standalone Mode = "standalone"
	Sentinel   Mode = "sentinel"
	Cluster    Mode = "cluster"
)

// Options says how to reach Redis. All values are final: placeholders are resolved.
type Options struct {
	Mode      Mode     // default: standalone
	Addresses []string // host:port, or the path of a unix socket; required
	Master    string   // the master's name; sentinel only

	Username, Password                 string
	SentinelUsername, SentinelPassword string
	DB                                 int // not on a cluster

	// Credentials and SentinelCredentials provide logins that change, instead of passwords. Open connections log in
	// again with a new login of Credentials. May be nil.
	Credentials, SentinelCredentials credentials.Provider

	// OnLogin is called when Credentials were asked in the background, or open connections have logged in again, with
	// the reason if that failed. It must not block. May be nil.
	OnLogin func(err error)

	TLS *tls.Config // nil: plain

	// LoadTLS returns the configuration of TLS for a new connection, instead of TLS. An error keeps
	// the connection from being opened. May be nil.
	LoadTLS func() (*tls.Config, error)

	PoolSize int // connections per node; 0: 10 for each CPU, at least 50

	// Timeout is how long a decision waits for Redis, and any command on an open connection. 0: 100 ms.
	Timeout time.Duration
}

// New makes a client for a redis.Store. It does not connect, and it never sends a command twice: a request whose answer is
// lost must not be charged again. The error is a *limiter.FieldError.
func New(o Options) (goredis.UniversalClient, error) {
	return dial.New(o.internal())
}

// internal returns the options as this module's stores know them.
func (o Options) internal() dial.Connection {
	return dial.Connection{
		Mode: dial.Mode(o.Mode), Addresses: o.Addresses, Master: o.Master,
		Username: o.Username, Password: o.Password,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		DB: o.DB, Credentials: o.Credentials, SentinelCredentials: o.SentinelCredentials, OnLogin: o.OnLogin,
		TLS: o.TLS, LoadTLS: o.LoadTLS, PoolSize: o.PoolSize, Timeout: o.Timeout,
	}
}

// ParseURL reads redis://, rediss:// and unix:// URLs: scheme://[[user]:password@]host[:port][/db] and
// unix://[[user]:password@]/path/to/socket[?db=n]. Its errors never quote the URL, which holds a password.
func ParseURL(text string) (Options, error) {
	o, err := dial.ParseURL(text)
	return Options{
		Mode: Mode(o.Mode), Addresses: o.Addresses, Username: o.Username, Password: o.Password, DB: o.DB, TLS: o.TLS,
	}, err
}
