package redisratelimit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminserver"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/command"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/options"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/simulate"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/tryout"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
)

func init() {
	caddy.RegisterModule(adminRoutes{})
	caddycmd.RegisterCommand(command.New(command.Host{
		Redis:    configuredRedis,
		Warnings: findingsOf,
		Simulate: func(config []byte, policy string) (command.Simulation, error) {
			r, err := simulate.New(config, policy)
			if err != nil {
				return nil, err
			}
			return r, nil
		},
		Try: tryout.Run,
	}))
}

// adminRoutes answers questions about the limits of the running configuration at Caddy's admin endpoint,
// below /redis_ratelimit/. Keys travel in bodies, because Caddy logs admin URLs.
type adminRoutes struct{}

// CaddyModule returns the Caddy module information.
func (adminRoutes) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api." + options.AppName, New: func() caddy.Module { return new(adminRoutes) }}
}

// Routes returns the routes of the API.
func (adminRoutes) Routes() []caddy.AdminRoute {
	return adminserver.Routes(func() *adminserver.Server {
		if a := apps.newest(); a != nil {
			return a.admin
		}
		return nil
	})
}

// configuredRedis reads how an app reaches its Redis; nil where it has none.
func configuredRedis(raw json.RawMessage) (*command.RedisTarget, error) {
	app := new(App)
	if raw != nil {
		if err := caddy.StrictUnmarshalJSON(raw, app); err != nil {
			return nil, fmt.Errorf("apps.%s: %w", options.AppName, err)
		}
	}
	app.setDefaults()
	if err := app.Validate(); err != nil || app.Redis == nil {
		return nil, err
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	resolved, err := app.resolve(ctx)
	if err != nil {
		return nil, err
	}
	if err := resolved.Client.Validate(); err != nil {
		return nil, options.NameFields(err)
	}
	return &command.RedisTarget{Client: resolved.Client, Naming: resolved.Naming}, nil
}

// findingsOf validates a configuration, and returns the warnings about it for people.
func findingsOf(config []byte) (findings []command.Finding) {
	warnings, err := warningsOf(config)
	if err != nil {
		return []command.Finding{{
			Check: command.Configuration, Result: command.Warning,
			Detail: "cannot be set up, so that its limits were not looked at: " + err.Error(),
			Advice: "fix what 'caddy validate' reports",
		}}
	}
	for _, w := range warnings {
		problem, advice, _ := strings.Cut(w.Text, "; ")
		findings = append(findings, command.Finding{
			Check: command.Configuration, Result: command.Warning, Detail: w.Place + ": " + problem, Advice: advice,
		})
	}
	return findings
}

// warningsOf validates a configuration, and returns the warnings about it.
func warningsOf(config []byte) ([]routetrace.Warning, error) {
	c := new(caddy.Config)
	if err := caddy.StrictUnmarshalJSON(caddy.RemoveMetaFields(config), c); err != nil {
		return nil, fmt.Errorf("decoding the configuration: %w", err)
	}
	// Log files are opened by no command, and the warnings are printed.
	c.Logging = &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {BaseLog: caddy.BaseLog{Level: "FATAL"}}}}
	if err := caddy.Validate(c); err != nil {
		return nil, err
	}
	return noticed.takeValidated(), nil
}

// Interface guards
var _ caddy.AdminRouter = adminRoutes{}
var _ command.Simulation = (*simulate.Simulation)(nil)
