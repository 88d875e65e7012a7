// Package dial makes clients for a single Redis, for Sentinel and for a Cluster. It decides which options and URLs
// are valid, when connections log in, and with what, and what errors of Redis and of connections mean. It may import
// limiter, credentials and internal/clock.
package dial

import (
	"context"
	"crypto/tls"
	"runtime"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials"
)

// Mode is the kind of Redis that the addresses lead to.
type Mode string

// The modes.
const (
	Standalone Mode = "standalone"
	Sentinel   Mode = "sentinel"
	Cluster    Mode = "cluster"
)

// Connection says how to reach Redis. All values are final: placeholders are resolved.
type Connection struct {
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

	// Timeout is how long a decision waits for Redis, and any command on an open connection. 0:
	// [DefaultTimeout].
	Timeout time.Duration
}

// DefaultTimeout is how long a decision waits for Redis by default.
const DefaultTimeout = 100 * time.Millisecond

// ConnectBudget is how long connecting may take: dialing and the TLS handshake. No request waits for
// it longer than its own timeout.
const ConnectBudget = 5 * time.Second

// MaxPoolSize is the most connections to one node: an address has no more ports.
const MaxPoolSize = 65535

// MaxOpenSenders is the most batches that a store has in flight at once. Where one of twenty takes 50 ms, ten are in
// flight at any time, and now and then twice as many. The connections are enough for them.
const MaxOpenSenders = 48

// New makes a client for a redis.Store. It does not connect, and it never sends a command
// twice: a request whose answer is lost must not be charged again.
func New(o Connection) (goredis.UniversalClient, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.PoolSize == 0 {
		o.PoolSize = max(MaxOpenSenders+2, 10*runtime.GOMAXPROCS(0))
	}
	u := &goredis.UniversalOptions{
		Addrs: o.Addresses, MasterName: o.Master,
		Username: o.Username, Password: o.Password,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		DB: o.DB, TLSConfig: o.TLS,
		PoolSize: o.PoolSize, ConnMaxIdleTime: -1, // no request waits for a new one after a quiet hour

		MaxRetries: -1, DialerRetries: 1, // never replay, fail at once
		DialTimeout: ConnectBudget, PoolTimeout: ConnectBudget,
		ReadTimeout: o.Timeout, WriteTimeout: o.Timeout, ContextTimeoutEnabled: true,
		Protocol: 2, DisableIdentity: true, // fewest commands to connect, none that an ACL must allow
	}
	s := o.askAtEachConnection(u)
	// With this mode enabled the client stretches every timeout to 10 s.
	maintenance := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch o.Mode {
	case Sentinel:
		return s.keep(goredis.NewFailoverClient(u.Failover())), nil
	case Cluster:
		options := u.Cluster()
		options.MaintNotificationsConfig = maintenance
		cluster := goredis.NewClusterClient(options)
		cluster.OnNewNode(func(node *goredis.Client) { completeEndpoints(s.keep(node)) })
		return cluster, nil
	default:
		options := u.Simple()
		options.MaintNotificationsConfig = maintenance
		if isSocket(o.Addresses[0]) {
			options.Network = "unix"
		}
		return newClient(func() *goredis.Client { return s.keep(goredis.NewClient(options)) }), nil
	}
}

// Ping connects and sends a PING, within the context.
func Ping(ctx context.Context, client goredis.UniversalClient) error {
	return ping(ctx, client)
}

// ping sends a PING by a client or on a connection.
func ping(ctx context.Context, to interface {
	Process(ctx context.Context, command goredis.Cmder) error
}) error {
	return to.Process(ctx, NoRetryCmd{Cmd: goredis.NewCmd(ctx, "ping")})
}

// TimeoutOf returns how long a client waits for a reply.
func TimeoutOf(client goredis.UniversalClient) time.Duration {
	var timeout time.Duration
	switch c := client.(type) {
	case interface{ Options() *goredis.Options }: // a goredis.Client, or one of New
		timeout = c.Options().ReadTimeout
	case *goredis.ClusterClient:
		timeout = c.Options().ReadTimeout
	}
	if timeout <= 0 { // of no kind that New makes, or one that waits for ever
		return DefaultTimeout
	}
	return timeout
}

// NoRetryCmd is a command that go-redis sends a single time. Its own retries would charge a request
// again whose answer was lost. NoRetry stops them on every kind of client, and still allows a
// Cluster's redirections, which are answers.
type NoRetryCmd struct{ *goredis.Cmd }

// NoRetry implements [goredis.Cmder].
func (NoRetryCmd) NoRetry() bool { return true }
