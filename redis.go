package redisratelimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

// Redis says how to reach Redis: by `url`, or by `addresses` and the fields after it. Text values
// take placeholders such as `{env.REDIS_PASSWORD}` and `{file./run/secrets/redis}`, which are
// resolved when the configuration is loaded and appear nowhere else.
type Redis struct {
	// `redis://[user[:password]@]host[:port][/db]`, `rediss://…` for TLS, or
	// `unix://[user[:password]@]/path/to/socket[?db=n]`. `valkey://` and `valkeys://` are other
	// names of `redis://` and `rediss://`. Placeholders in user and password stand
	// for themselves and need no percent-encoding.
	URL string `json:"url,omitempty"`

	// `host:port`, or the path of a unix socket. One with mode `standalone`; with `sentinel` the
	// sentinels, with `cluster` some of the nodes.
	Addresses []string `json:"addresses,omitempty"`

	// `standalone`, `sentinel` or `cluster`. Default: `standalone`.
	Mode dial.Mode `json:"mode,omitempty"`

	// The name of the master that the sentinels watch. Required with mode `sentinel`.
	Master string `json:"master,omitempty"`

	// The ACL user. Default: Redis's default user.
	Username string `json:"username,omitempty"`

	// The user's password. Default: none.
	Password string `json:"password,omitempty"`

	// Where the user's login comes from if it changes, instead of `password`. Default: none.
	CredentialsRaw json.RawMessage `json:"credentials,omitempty" caddy:"namespace=redis_ratelimit.credentials inline_key=source"`

	// The user at the sentinels. Default: their default user.
	SentinelUsername string `json:"sentinel_username,omitempty"`

	// The password at the sentinels. Default: none.
	SentinelPassword string `json:"sentinel_password,omitempty"`

	// Where the login at the sentinels comes from, instead of `sentinel_password`. Default: none.
	SentinelCredentialsRaw json.RawMessage `json:"sentinel_credentials,omitempty" caddy:"namespace=redis_ratelimit.credentials inline_key=source"`

	// The database's number. Default: 0, which is the only one with mode `cluster`.
	DB int `json:"db,omitempty"`

	// Turns TLS on. Default: off, except with a `rediss://` URL.
	TLS *RedisTLS `json:"tls,omitempty"`

	// The most connections per node, up to 65,535. Default: 10 for each CPU, at least 50.
	PoolSize int `json:"pool_size,omitempty"`
}

// check refuses what cannot work whatever the placeholders hold.
func (r *Redis) check() error {
	o := r.written()
	o.Timeout = dial.DefaultTimeout
	for i, address := range o.Addresses {
		if strings.Contains(address, "{") {
			o.Addresses[i] = "placeholder:1"
		}
	}
	if r.URL != "" {
		if strings.Contains(r.URL, "{") {
			return nil
		}
		fromURL, err := parseURL(r.URL)
		if err != nil {
			return err
		}
		fromURL.PoolSize, fromURL.Timeout = r.PoolSize, dial.DefaultTimeout
		o = fromURL
	}
	if err := o.Validate(); err != nil {
		return options.NameFields(err)
	}
	if r.TLS == nil || strings.Contains(r.TLS.ServerName, "{") {
		return nil
	}
	return secretfile.ValidServerName(r.TLS.ServerName)
}

func (r *Redis) clientOptions(ctx caddy.Context) (dial.Connection, error) {
	if r.URL != "" {
		if len(r.Addresses) > 0 || r.Mode != "" || r.Master != "" || r.Username != "" || r.Password != "" || r.CredentialsRaw != nil ||
			r.SentinelUsername != "" || r.SentinelPassword != "" || r.SentinelCredentialsRaw != nil || r.DB != 0 {
			return dial.Connection{}, errors.New("url: has address, user, password and database in itself; " +
				"leave the other fields out, except " +
				"tls and pool_size")
		}
		text, err := options.ResolveURL(r.URL)
		if err != nil {
			return dial.Connection{}, err
		}
		o, err := parseURL(text)
		o.PoolSize = r.PoolSize
		return o, err
	}
	o := r.written()
	texts := []options.OptionText{
		{Option: "master", Text: &o.Master}, {Option: "username", Text: &o.Username}, {Option: "password", Text: &o.Password},
		{Option: "sentinel_username", Text: &o.SentinelUsername}, {Option: "sentinel_password", Text: &o.SentinelPassword},
	}
	for i := range o.Addresses {
		texts = append(texts, options.OptionText{Option: "address", Text: &o.Addresses[i]})
	}
	err := options.ResolveTexts(texts)
	if err == nil {
		o.Credentials, err = options.LoadCredentials(ctx, "credentials", r.CredentialsRaw)
	}
	if err == nil {
		o.SentinelCredentials, err = options.LoadCredentials(ctx, "sentinel_credentials", r.SentinelCredentialsRaw)
	}
	return o, err
}

// written returns the options as they are written, with placeholders. No file stands for sources of logins.
func (r *Redis) written() dial.Connection {
	o := dial.Connection{
		Addresses: slices.Clone(r.Addresses), Mode: r.Mode, Master: r.Master, DB: r.DB, PoolSize: r.PoolSize,
		Username: r.Username, Password: r.Password, SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword,
	}
	if r.CredentialsRaw != nil {
		o.Credentials = credentials.File("")
	}
	if r.SentinelCredentialsRaw != nil {
		o.SentinelCredentials = credentials.File("")
	}
	return o
}

// parseURL reads a URL without placeholders. Sentinels and clusters have several addresses, and no URL.
func parseURL(text string) (dial.Connection, error) {
	scheme, _, _ := strings.Cut(text, "://")
	for mode, options := range map[string]string{"sentinel": "mode sentinel, master <name>", "cluster": "mode cluster"} {
		if strings.Contains(scheme, mode) {
			return dial.Connection{}, fmt.Errorf("redis URL: write a block instead, redis { ... } with %s and address <host:port>", options)
		}
	}
	o, err := dial.ParseURL(text)
	if err != nil {
		err = options.NameFields(err)
	}
	return o, err
}

// RedisTLS says how to trust Redis and how to be trusted by it.
type RedisTLS struct {
	// The PEM file of the authorities that sign Redis's certificate. Default: the system's.
	CA string `json:"ca,omitempty"`

	// The PEM file of this client's certificate, for mutual TLS. Goes with `key`. Default: none.
	Cert string `json:"cert,omitempty"`

	// The PEM file of the certificate's key.
	Key string `json:"key,omitempty"`

	// The name that Redis's certificate must have. Default: the host of the address. With `pins` it
	// is only sent.
	ServerName string `json:"server_name,omitempty"`

	// The SHA-256 of the public keys (SubjectPublicKeyInfo) that Redis's certificates, and those of the
	// sentinels, may have, each in 64 hexadecimal digits. Name, expiry and authority are then not
	// verified. Excludes `ca`. Default: none.
	Pins []string `json:"pins,omitempty"`
}

// resolve replaces placeholders.
func (t *RedisTLS) resolve() (secretfile.TLS, error) {
	files := secretfile.TLS(*t)
	files.Pins = slices.Clone(files.Pins)
	texts := []options.OptionText{
		{Option: "ca", Text: &files.CA}, {Option: "cert", Text: &files.Cert}, {Option: "key", Text: &files.Key},
		{Option: "server_name", Text: &files.ServerName},
	}
	for i := range files.Pins {
		texts = append(texts, options.OptionText{Option: "pin", Text: &files.Pins[i]})
	}
	return files, options.ResolveTexts(texts)
}
