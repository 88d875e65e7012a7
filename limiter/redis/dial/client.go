// Package dial makes clients for a single Redis, for Sentinel and for a Cluster. It decides which options and URLs
// are valid, and when connections log in, and with what. It may import limiter, its room wire, credentials and
// internal/clock.
package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/internal/wire"
)

// Mode is the kind of Redis that the addresses lead to.
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

// New makes a client for a redis.Store. It does not connect, and it never sends a command
// twice: a request whose answer is lost must not be charged again.
func New(o Options) (goredis.UniversalClient, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.PoolSize == 0 {
		o.PoolSize = max(wire.MaxOpenSenders+2, 10*runtime.GOMAXPROCS(0))
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
		cluster.OnNewNode(func(node *goredis.Client) { s.keep(node) })
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

// ErrURLParameters is the error of [ParseURL] about parameters of a redis:// or rediss:// URL.
var ErrURLParameters = errors.New("redis URL: has parameters; set the fields of dial.Options instead")

// ParseURL reads redis://, rediss:// and unix:// URLs: scheme://[[user]:password@]host[:port][/db]
// and unix://[[user]:password@]/path/to/socket[?db=n]. Its errors never quote the URL, which holds
// a password.
func ParseURL(text string) (Options, error) {
	o := Options{Mode: Standalone}
	u, err := url.Parse(text)
	if err != nil {
		return o, errors.New("redis URL: cannot be parsed; use redis://, rediss:// or unix://, with '%', '@', '/' and ':' in user and password percent-encoded")
	}
	if u.Opaque != "" {
		return o, errors.New("redis URL: write // behind the scheme, such as redis://127.0.0.1:6379")
	}
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	switch u.Scheme {
	case "redis", "rediss":
		err = o.fromHostURL(u)
	case "unix":
		err = o.fromSocketURL(u)
	default:
		err = errors.New("redis URL: the scheme must be redis://, rediss:// or unix://")
	}
	return o, err
}

func (o *Options) fromHostURL(u *url.URL) error {
	host, port := u.Hostname(), u.Port()
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "6379"
	}
	o.Addresses = []string{net.JoinHostPort(host, port)}
	if u.Scheme == "rediss" {
		o.TLS = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return ErrURLParameters
	}
	db := strings.Trim(u.Path, "/")
	return o.setDB(db)
}

func (o *Options) fromSocketURL(u *url.URL) error {
	if u.Host != "" || u.Path == "" {
		return errors.New("redis URL: a socket is written unix:///path/to/redis.sock")
	}
	o.Addresses = []string{u.Path}
	query := u.Query()
	db := query.Get("db")
	query.Del("db")
	if len(query) > 0 || u.Fragment != "" {
		return errors.New("redis URL: the only parameter of a socket is db")
	}
	return o.setDB(db)
}

func (o *Options) setDB(text string) error {
	if text == "" {
		return nil
	}
	db, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return errors.New("redis URL: the database must be a number from 0")
	}
	o.DB = int(db)
	return nil
}

// Ping connects and sends a PING, within the context.
func Ping(ctx context.Context, client goredis.UniversalClient) error {
	return client.Process(ctx, wire.NoRetryCmd{Cmd: goredis.NewCmd(ctx, "ping")})
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
	if timeout <= 0 { // of no kind that NewClient makes, or one that waits for ever
		return DefaultTimeout
	}
	return timeout
}
