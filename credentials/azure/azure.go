// Package azure provides logins at Azure Managed Redis and Azure Cache for Redis by tokens of Microsoft Entra ID.
package azure

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials"
)

func init() {
	caddy.RegisterModule(new(Credentials))
}

// Credentials logs in by Entra ID. The identity is that of the variables AZURE_TENANT_ID, AZURE_CLIENT_ID and
// AZURE_CLIENT_SECRET or AZURE_CLIENT_CERTIFICATE_PATH, a workload identity, or a managed identity, the first that is
// there.
type Credentials struct {
	// The client ID of a user-assigned managed identity, with placeholders. Default: the system-assigned one.
	ClientID string `json:"client_id,omitempty"`

	mu       sync.Mutex
	identity azcore.TokenCredential // nil before the first login
}

// CaddyModule returns the Caddy module information.
func (*Credentials) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "redis_ratelimit.credentials.azure", New: func() caddy.Module { return new(Credentials) }}
}

// UnmarshalCaddyfile reads the block, which may be left out:
//
//	azure {
//		client_id <id>
//	}
func (c *Credentials) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return errors.New("azure takes no values, only a block")
	}
	for d.NextBlock(0) {
		if d.Val() != "client_id" || !d.AllArgs(&c.ClientID) {
			return errors.New("azure: write client_id with a value, or leave the block out")
		}
	}
	return nil
}

// Provision replaces placeholders. It asks nothing of the network.
func (c *Credentials) Provision(caddy.Context) (err error) {
	if c.ClientID, err = caddy.NewReplacer().ReplaceOrErr(c.ClientID, true, true); err != nil {
		return errors.New("client_id: a placeholder is unknown or empty")
	}
	return nil
}

// Identity implements credentials.Provider.
func (c *Credentials) Identity() string { return c.ClientID }

// scope is what a token permits.
const scope = "https://redis.azure.com/.default"

// Login implements credentials.Provider. The user is the object ID of the identity, as its token says.
func (c *Credentials) Login(ctx context.Context) (credentials.Login, error) {
	source, err := c.source()
	if err != nil {
		return credentials.Login{}, noToken(ctx, err)
	}
	token, err := source.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}})
	if err != nil {
		return credentials.Login{}, noToken(ctx, err)
	}
	user, err := objectID(token.Token)
	return credentials.Login{Username: user, Password: token.Token, End: token.ExpiresOn}, err
}

// source returns the identities that are there, the first one that has a token before others.
func (c *Credentials) source() (azcore.TokenCredential, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.identity != nil {
		return c.identity, nil
	}
	var found []azcore.TokenCredential
	if byEnvironment, err := azidentity.NewEnvironmentCredential(nil); err == nil {
		found = append(found, byEnvironment)
	}
	if workload, err := azidentity.NewWorkloadIdentityCredential(nil); err == nil {
		found = append(found, workload)
	}
	options := new(azidentity.ManagedIdentityCredentialOptions)
	if c.ClientID != "" {
		options.ID = azidentity.ClientID(c.ClientID)
	}
	managed, err := azidentity.NewManagedIdentityCredential(options)
	if err != nil {
		return nil, err
	}
	c.identity, err = azidentity.NewChainedTokenCredential(append(found, managed), nil)
	return c.identity, err
}

// errorCode is a number by which Entra ID explains a refusal.
var errorCode = regexp.MustCompile(`AADSTS[0-9]+`)

// noToken is the error of an identity without a token. It quotes no answer, which may hold one.
func noToken(ctx context.Context, err error) error {
	var refused *azidentity.AuthenticationFailedError
	switch {
	case ctx.Err() != nil:
		return errors.New("Entra ID gives this process no token in time; let it reach the metadata " + //nolint:staticcheck // it begins with a name
			"service, or login.microsoftonline.com")
	case errorCode.MatchString(err.Error()):
		return fmt.Errorf("Entra ID refuses a token: %s", errorCode.FindString(err.Error())) //nolint:staticcheck // it begins with a name
	case errors.As(err, &refused) && refused.RawResponse != nil:
		return fmt.Errorf("Entra ID gives this process no token: status %d", //nolint:staticcheck // it begins with a name
			refused.RawResponse.StatusCode)
	}
	return errors.New("Entra ID gives this process no token; assign it a managed identity, or set " + //nolint:staticcheck // it begins with a name
		"AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET")
}

// objectID returns the claim of a token that Redis has as the user's name.
func objectID(token string) (string, error) {
	var claims struct {
		ObjectID string `json:"oid"`
	}
	parts := strings.Split(token, ".")
	if len(parts) == 3 {
		if text, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			_ = json.Unmarshal(text, &claims) // without the claim it is no token for Redis
		}
	}
	if claims.ObjectID == "" {
		return "", errors.New("the token of Entra ID has no object ID")
	}
	return claims.ObjectID, nil
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Credentials)(nil)
	_ caddyfile.Unmarshaler = (*Credentials)(nil)
	_ credentials.Provider  = (*Credentials)(nil)
)
