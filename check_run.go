package redisratelimit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// checkup is one check of a configuration and what it has found so far.
type checkup struct {
	options  redisOptions
	logs     bool // the configuration uses sliding_window_log
	servers  []checkedServer
	findings []finding
	unasked  bool // Redis could not be asked
}

// checkedServer is a server that decides.
type checkedServer struct {
	address string
	client  *redis.Client
	hello   greeting
}

// leastTimeout is how long a check waits for an answer at the least, so that a Redis too slow for the
// configured timeout is measured and not just unreachable.
const leastTimeout = 2 * time.Second

// configuredApp is this module's part of the configuration, which may be empty.
func (i *invocation) configuredApp() (app *App, logs bool, err error) {
	text, file, _, err := caddycmd.LoadConfig(i.flag("config"), i.flag("adapter"))
	if err != nil {
		return nil, false, err
	}
	if file == "" {
		return nil, false, exitf(exitNotAsked, "no configuration: name it with --config, there is no Caddyfile in this directory")
	}
	var config struct {
		Apps map[string]json.RawMessage `json:"apps"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, false, fmt.Errorf("%s is no configuration of Caddy: %w", file, err)
	}
	app = new(App)
	if part := config.Apps[appName]; part != nil {
		if err := caddy.StrictUnmarshalJSON(part, app); err != nil {
			return nil, false, fmt.Errorf("apps.%s: %w", appName, err)
		}
	}
	return app, bytes.Contains(text, []byte(`"sliding_window_log"`)), nil
}

// run tries everything.
func (c *checkup) run(app *App) {
	app.setDefaults()
	if err := app.check(); err != nil {
		c.failed("configuration", "", err.Error(), "change the global option redis_ratelimit")
		return
	}
	if app.Redis == nil {
		c.ok("redis", "", "none is configured: the limits live in each Caddy process, and are not shared")
		return
	}
	options, err := app.resolve()
	if err == nil {
		err = options.Client.Validate()
	}
	if err != nil {
		c.failed("configuration", "", err.Error(), "change the option redis, or set what it takes from the environment or a file")
		return
	}
	c.options = options
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if client := c.reach(ctx); client != nil {
		defer client.Close() //nolint:errcheck // all was asked
		c.tryServers(ctx, client)
	}
}

// tryServers tries every server that was reached.
func (c *checkup) tryServers(ctx context.Context, client redis.UniversalClient) {
	for _, try := range []func(context.Context, *checkedServer){
		c.tryVersion, c.tryRole, c.tryRights, c.tryAdminRights,
		func(ctx context.Context, s *checkedServer) { c.tryScripts(ctx, client, s) },
		c.tryRoundTrip, c.tryClock, c.tryEviction,
	} {
		for i := range c.servers {
			try(ctx, &c.servers[i])
		}
	}
}

// clientOptions are the configured ones, with the patience of a check.
func (c *checkup) clientOptions() limiter.ClientOptions {
	o := c.options.Client
	o.Timeout = max(leastTimeout, o.Timeout)
	o.PoolSize = 2
	return o
}

func (c *checkup) ok(check, server, detail string) {
	c.findings = append(c.findings, finding{Check: check, Result: resultOK, Detail: detail, server: server})
}

func (c *checkup) warn(check, server, detail, advice string) {
	c.findings = append(c.findings, finding{Check: check, Result: resultWarning, Detail: detail, Advice: advice, server: server})
}

func (c *checkup) failed(check, server, detail, advice string) {
	c.findings = append(c.findings, finding{Check: check, Result: resultFailed, Detail: detail, Advice: advice, server: server})
}
