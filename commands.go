package redisratelimit

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddyfileopt"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/command"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/preflight"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/simulate"
)

func init() {
	caddycmd.RegisterCommand(command.New(command.Host{
		Redis:    configuredRedis,
		Warnings: warningsOf,
		Simulate: func(config []byte, policy string) (command.Simulation, error) {
			r, err := simulate.New(config, policy, limiterOf)
			if err != nil {
				return nil, err
			}
			return r, nil
		},
	}))
}

// configuredRedis reads how an app reaches its Redis; nil where it has none.
func configuredRedis(raw json.RawMessage) (*preflight.Options, error) {
	app := new(App)
	if raw != nil {
		if err := caddy.StrictUnmarshalJSON(raw, app); err != nil {
			return nil, fmt.Errorf("apps.%s: %w", appName, err)
		}
	}
	app.setDefaults()
	if err := app.Validate(); err != nil || app.Redis == nil {
		return nil, err
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	options, err := app.resolve(ctx)
	if err != nil {
		return nil, err
	}
	if err := options.Client.Validate(); err != nil {
		return nil, caddyfileopt.NameFields(err)
	}
	return &preflight.Options{Client: options.Client, Naming: options.Naming}, nil
}

// Interface guards
var _ command.Simulation = (*simulate.Simulation)(nil)
