package redisratelimit

import (
	"errors"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/tlsfiles"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// RedisTLS says how to trust Redis and how to be trusted by it.
type RedisTLS struct {
	// The PEM file of the authorities that sign Redis's certificate. Default: the system's.
	CA string `json:"ca,omitempty"`

	// The PEM file of this client's certificate, for mutual TLS. Goes with `key`. Default: none.
	Cert string `json:"cert,omitempty"`

	// The PEM file of the certificate's key.
	Key string `json:"key,omitempty"`

	// The name that Redis's certificate must have. Default: the host of the address.
	ServerName string `json:"server_name,omitempty"`
}

// resolve replaces placeholders.
func (t *RedisTLS) resolve() (tlsfiles.Files, error) {
	var files tlsfiles.Files
	for _, f := range []struct {
		option, from string
		to           *string
	}{{"ca", t.CA, &files.CA}, {"cert", t.Cert, &files.Cert}, {"key", t.Key, &files.Key}, {"server_name", t.ServerName, &files.ServerName}} {
		var err error
		if *f.to, err = resolveText(f.option, f.from); err != nil {
			return files, err
		}
	}
	return files, nil
}

// checkPasswordFiles refuses files that hold no password when the configuration is loaded. Its errors name
// the option, and the path as [limiter.ReadPassword] does.
func checkPasswordFiles(o limiter.ClientOptions) error {
	for _, f := range []struct{ option, path string }{
		{"credentials", o.PasswordFile}, {"sentinel_credentials", o.SentinelPasswordFile},
	} {
		if f.path == "" {
			continue
		}
		if _, err := limiter.ReadPassword(f.path); err != nil {
			return errors.New(f.option + ": " + strings.ReplaceAll(err.Error(), f.path, humanize.Shown(f.path)))
		}
	}
	return nil
}
