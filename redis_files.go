package redisratelimit

import (
	"fmt"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/humanize"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/tlsfiles"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter/redis/dial"
)

// Credentials say where a password comes from.
type Credentials struct {
	// The kind of source: `file`. Required.
	Source string `json:"source,omitempty"`

	// The path of a file with the password. It is read at every new connection, so that a rotated password
	// needs no reload. One line break at its end is left out. Required.
	Path string `json:"path,omitempty"`
}

const sourceFile = "file"

// resolve replaces placeholders of the path, and refuses a file that holds no password. Without credentials the path
// is empty. Errors name the path as [dial.ReadPassword] does.
func (c Credentials) resolve(option string) (string, error) {
	switch {
	case c == Credentials{}:
		return "", nil
	case c.Source != sourceFile || c.Path == "":
		return "", fmt.Errorf(`%s: use the source "file" and a path`, option)
	}
	path, err := resolveText(option, c.Path)
	if err != nil {
		return "", err
	}
	if _, err := dial.ReadPassword(path); err != nil {
		return "", fmt.Errorf("%s: %s", option, strings.ReplaceAll(err.Error(), path, humanize.Shown(path)))
	}
	return path, nil
}

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
	files := tlsfiles.Files(*t)
	err := resolveTexts([]optionText{{"ca", &files.CA}, {"cert", &files.Cert}, {"key", &files.Key}, {"server_name", &files.ServerName}})
	return files, err
}
