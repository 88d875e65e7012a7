package options

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/secretfile"
)

func init() {
	caddy.RegisterModule(CredentialsFile{})
}

// credentialsNamespace is that of the modules that provide logins.
const credentialsNamespace = "redis_ratelimit.credentials"

// CredentialsFile is a file with a password. It is read at every new connection and each second, so that a rotated
// password needs no reload.
type CredentialsFile struct {
	// The path of the file. One line break at its end is left out. Required.
	Path string `json:"path,omitempty"`

	provider credentials.File
}

// CaddyModule returns the Caddy module information.
func (CredentialsFile) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: credentialsNamespace + ".file", New: func() caddy.Module { return new(CredentialsFile) }}
}

var errPathURL = errors.New("use the path of a file; a URL stands behind the word redis itself")

// UnmarshalCaddyfile reads file <path>. Its errors quote no value: a password may stand in place of a path.
func (f *CredentialsFile) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.Args(&f.Path) || f.Path == "" || d.NextArg() || d.NextBlock(d.Nesting()) {
		return errors.New("file takes the path of a file with the password, such as credentials file /run/secrets/redis")
	}
	if strings.Contains(f.Path, "://") {
		return errPathURL
	}
	return nil
}

// Provision replaces placeholders of the path, and refuses a file that holds no password. Errors name the path as
// [credentials.File] does.
func (f *CredentialsFile) Provision(ctx caddy.Context) error {
	switch {
	case f.Path == "":
		return errors.New(`use the source "file" and a path`)
	case strings.Contains(f.Path, "://"):
		return errPathURL
	}
	path, err := ResolveText("path", f.Path)
	if err != nil {
		return err
	}
	f.provider = credentials.File(path)
	if _, err := f.Login(ctx); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), path, secretfile.Redact(path)))
	}
	return nil
}

// Login implements credentials.Provider.
func (f *CredentialsFile) Login(ctx context.Context) (credentials.Login, error) {
	return f.provider.Login(ctx)
}

// Identity implements credentials.Provider.
func (f *CredentialsFile) Identity() string { return f.provider.Identity() }

// ParseCredentials reads a source of logins. Its errors quote no value.
func ParseCredentials(d *caddyfile.Dispenser) (json.RawMessage, error) {
	option := d.Val()
	if !d.NextArg() {
		return nil, d.Errf("%s takes a source, such as %[1]s file /run/secrets/redis", option)
	}
	source := d.Val()
	if err := checkSource(source); err != nil {
		return nil, d.Errf("%s: %w", option, err)
	}
	module, err := caddyfile.UnmarshalModule(d, credentialsNamespace+"."+source)
	if err != nil {
		return nil, d.Errf("%s: %w", option, err)
	}
	return caddyconfig.JSONModuleObject(module, "source", source, nil), nil
}

// checkSource refuses a source that no module of this Caddy has the name of.
func checkSource(source string) error {
	if _, err := caddy.GetModule(credentialsNamespace + "." + source); err == nil && source != "" {
		return nil
	}
	switch source {
	case "aws", "azure", "gcp":
		return fmt.Errorf("this Caddy has no source %s; build it with xcaddy build --with "+
			"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials/%[1]s", source)
	}
	return errors.New(`use the source "file" and a path, or the name of a module of ` + credentialsNamespace)
}

// LoadCredentials loads the module of a source; nil without one. Errors quote no value.
func LoadCredentials(ctx caddy.Context, option string, raw json.RawMessage) (credentials.Provider, error) {
	if raw == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	var head struct{ Source string }
	if json.Unmarshal(raw, &head) != nil {
		return nil, fmt.Errorf(`%s: write an object with a source, such as {"source": "file", "path": "/run/secrets/redis"}`, option)
	}
	if err := checkSource(head.Source); err != nil {
		return nil, fmt.Errorf("%s: %w", option, err)
	}
	guest := struct {
		Raw json.RawMessage `caddy:"namespace=redis_ratelimit.credentials inline_key=source"`
	}{raw}
	module, err := ctx.LoadModule(&guest, "Raw")
	if err != nil {
		// Caddy writes the module's name before its error, and quotes a field that is unknown.
		_, text, found := strings.Cut(err.Error(), "provision "+credentialsNamespace+"."+head.Source+": ")
		if !found {
			text = err.Error()
		}
		return nil, fmt.Errorf("%s: %s", option, secretfile.Redact(text))
	}
	provider, ok := module.(credentials.Provider)
	if !ok {
		return nil, fmt.Errorf("%s: the module %s.%s provides no logins", option, credentialsNamespace, head.Source)
	}
	return provider, nil
}

// Interface guards
var (
	_ caddy.Provisioner     = (*CredentialsFile)(nil)
	_ caddyfile.Unmarshaler = (*CredentialsFile)(nil)
	_ credentials.Provider  = (*CredentialsFile)(nil)
)
