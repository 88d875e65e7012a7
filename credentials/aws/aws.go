// Package aws provides logins at Amazon ElastiCache and MemoryDB by IAM. A login's password is a request to connect,
// signed by the credentials of this machine or process; no part of it is asked of the services.
package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials"
)

func init() {
	caddy.RegisterModule(new(Credentials))
}

// Credentials logs in at a cluster of ElastiCache or MemoryDB by IAM. The identity comes from where the AWS SDK looks
// for it: environment, shared files, web identity, container or instance. Text values take placeholders.
type Credentials struct {
	// The cluster's region, such as `eu-central-1`. Required.
	Region string `json:"region,omitempty"`

	// The name of the cluster, replication group or serverless cache, not its address. Required.
	Cluster string `json:"cluster,omitempty"`

	// The IAM-enabled user of Redis. In ElastiCache its ID and name are the same. Required.
	User string `json:"user,omitempty"`

	// Whether the cache is serverless. Default: false.
	Serverless bool `json:"serverless,omitempty"`

	// `elasticache` or `memorydb`. Default: `elasticache`.
	Service string `json:"service,omitempty"`

	mu       sync.Mutex
	identity sdk.CredentialsProvider // nil before the first login
}

// CaddyModule returns the Caddy module information.
func (*Credentials) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "redis_ratelimit.credentials.aws", New: func() caddy.Module { return new(Credentials) }}
}

// UnmarshalCaddyfile reads the block:
//
//	aws {
//		region  <region>
//		cluster <name>
//		user    <name>
//		service elasticache|memorydb
//		serverless
//	}
func (c *Credentials) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return errors.New("aws takes no values, only a block")
	}
	texts := map[string]*string{"region": &c.Region, "cluster": &c.Cluster, "user": &c.User, "service": &c.Service}
	for d.NextBlock(0) {
		option := d.Val()
		switch text := texts[option]; {
		case option == "serverless" && !d.NextArg():
			c.Serverless = true
		case text == nil || !d.AllArgs(text):
			return errors.New("aws: write region, cluster, user and service with a value each, and serverless without one")
		}
	}
	return nil
}

var (
	regionForm  = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-[0-9]+$`)
	clusterForm = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
)

// Provision replaces placeholders and refuses what no cluster has. It asks nothing of the network.
func (c *Credentials) Provision(caddy.Context) error {
	if c.Service == "" {
		c.Service = "elasticache"
	}
	for name, text := range map[string]*string{"region": &c.Region, "cluster": &c.Cluster, "user": &c.User, "service": &c.Service} {
		value, err := caddy.NewReplacer().ReplaceOrErr(*text, true, true)
		if err != nil {
			return fmt.Errorf("%s: a placeholder is unknown or empty", name)
		}
		*text = value
	}
	c.Cluster = strings.ToLower(c.Cluster)
	switch {
	case !regionForm.MatchString(c.Region):
		return errors.New("region: use the cluster's region, such as eu-central-1")
	case !clusterForm.MatchString(c.Cluster):
		return errors.New("cluster: use the name of the cluster, replication group or serverless cache, not its address")
	case c.User == "":
		return errors.New("user: name the IAM-enabled user of Redis")
	case c.Service != "elasticache" && c.Service != "memorydb":
		return errors.New("service: use elasticache or memorydb")
	case c.Serverless && c.Service == "memorydb":
		return errors.New("serverless: only elasticache has it")
	}
	return nil
}

// Identity implements credentials.Provider.
func (c *Credentials) Identity() string {
	return fmt.Sprintf("%q %v", []string{c.Service, c.Region, c.Cluster, c.User}, c.Serverless)
}

// lifetime is how long the services take a signed request.
const lifetime = 15 * time.Minute

// Login implements credentials.Provider.
func (c *Credentials) Login(ctx context.Context) (credentials.Login, error) {
	source, err := c.source(ctx)
	if err != nil {
		return credentials.Login{}, fmt.Errorf("reading the configuration of AWS: %w", err)
	}
	signer, err := source.Retrieve(ctx)
	var refused smithy.APIError
	switch {
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return credentials.Login{}, errors.New("AWS gives this process no identity in time; let it reach the metadata service, or STS")
	case errors.As(err, &refused):
		return credentials.Login{}, fmt.Errorf("AWS refuses an identity: %s: %s", refused.ErrorCode(), refused.ErrorMessage())
	case err != nil:
		return credentials.Login{}, fmt.Errorf("AWS gives this process no identity: %w", err)
	}
	now := time.Now()
	token, err := c.sign(ctx, signer, now)
	if err != nil {
		return credentials.Login{}, fmt.Errorf("signing: %w", err)
	}
	end := now.Add(lifetime)
	if signer.CanExpire && signer.Expires.Before(end) {
		end = signer.Expires // the signature ends with what has signed it
	}
	return credentials.Login{Username: c.User, Password: token, End: end}, nil
}

// source returns where the SDK finds the identity.
func (c *Credentials) source(ctx context.Context) (sdk.CredentialsProvider, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.identity == nil {
		loaded, err := config.LoadDefaultConfig(ctx, config.WithRegion(c.Region), config.WithLogger(logging.Nop{}),
			config.WithCredentialsCacheOptions(func(o *sdk.CredentialsCacheOptions) { o.ExpiryWindow = lifetime / 3 }))
		if err != nil {
			return nil, err
		}
		c.identity = loaded.Credentials
	}
	return c.identity, nil
}

// sign returns the presigned request to connect, without its scheme. It has no body.
func (c *Credentials) sign(ctx context.Context, signer sdk.Credentials, at time.Time) (string, error) {
	query := url.Values{"Action": {"connect"}, "User": {c.User}, "X-Amz-Expires": {strconv.Itoa(int(lifetime.Seconds()))}}
	if c.Serverless {
		query.Set("ResourceType", "ServerlessCache")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Cluster+"/?"+query.Encode(), http.NoBody)
	if err != nil {
		return "", err
	}
	empty := sha256.Sum256(nil)
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, signer, request, hex.EncodeToString(empty[:]), c.Service, c.Region, at)
	return strings.TrimPrefix(signed, "http://"), err
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Credentials)(nil)
	_ caddyfile.Unmarshaler = (*Credentials)(nil)
	_ credentials.Provider  = (*Credentials)(nil)
)
