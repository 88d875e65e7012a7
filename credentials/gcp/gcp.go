// Package gcp provides logins at Google Memorystore by access tokens of IAM.
package gcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"cloud.google.com/go/compute/metadata"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials"
)

func init() {
	caddy.RegisterModule(Credentials{})
}

// Credentials logs in by IAM, as the default user. The identity is Google's application default: the file that
// GOOGLE_APPLICATION_CREDENTIALS names, or the service account of the machine.
type Credentials struct{}

// CaddyModule returns the Caddy module information.
func (Credentials) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "redis_ratelimit.credentials.gcp", New: func() caddy.Module { return new(Credentials) }}
}

// UnmarshalCaddyfile reads gcp, which has no options.
func (*Credentials) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() || d.NextBlock(0) {
		return errors.New("gcp takes no values and no block")
	}
	return nil
}

// Identity implements credentials.Provider.
func (Credentials) Identity() string { return "" }

// scope is what a token permits.
const scope = "https://www.googleapis.com/auth/cloud-platform"

// longest is how long a request may take. A login has stopped waiting by then.
const longest = 10 * time.Second

// Login implements credentials.Provider. Each login asks anew: the SDK would keep a token until 10 seconds before its
// end.
func (Credentials) Login(ctx context.Context) (credentials.Login, error) {
	type answer struct {
		token *oauth2.Token
		err   error
	}
	answers := make(chan answer, 1)
	patient := context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Timeout: longest})
	go func() { // not all of the SDK's requests end with the context
		var a answer
		found, err := google.FindDefaultCredentials(patient, scope)
		if err != nil {
			a.err = errNone
		} else {
			a.token, a.err = found.TokenSource.Token()
		}
		answers <- a
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return credentials.Login{}, noToken(ctx, a.err)
		}
		return credentials.Login{Password: a.token.AccessToken, End: a.token.Expiry}, nil
	case <-ctx.Done():
		return credentials.Login{}, noToken(ctx, ctx.Err())
	}
}

var errNone = errors.New("Google gives this process no token; give the machine a service account and " + //nolint:staticcheck // it begins with a name
	"let it reach the metadata service, or set GOOGLE_APPLICATION_CREDENTIALS to a file that can be read")

// noToken is the error of an identity without a token. It quotes no answer, which may hold one.
func noToken(ctx context.Context, err error) error {
	var refused *oauth2.RetrieveError
	var missing *metadata.Error
	switch {
	case ctx.Err() != nil:
		return errors.New("Google gives this process no token in time; let it reach the metadata " + //nolint:staticcheck // it begins with a name
			"service, or oauth2.googleapis.com")
	case errors.As(err, &refused) && refused.Response != nil:
		return statusError(refused.Response.StatusCode)
	case errors.As(err, &missing):
		return statusError(missing.Code)
	}
	return errNone
}

// statusError is the error of a service that refuses a token.
func statusError(status int) error {
	return fmt.Errorf("Google refuses a token: status %d; check the service account, its key and "+ //nolint:staticcheck // it begins with a name
		"this machine's clock", status)
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*Credentials)(nil)
	_ credentials.Provider  = Credentials{}
)
