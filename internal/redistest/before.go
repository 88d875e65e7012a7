package redistest

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
)

// BeforeCommand is a hook of a client, which runs a function before commands of a name are sent.
type BeforeCommand struct {
	Name string
	Do   func()
}

// DialHook implements [goredis.Hook].
func (BeforeCommand) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessHook implements [goredis.Hook].
func (h BeforeCommand) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if cmd.Name() == h.Name {
			h.Do()
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [goredis.Hook].
func (h BeforeCommand) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		if cmds[0].Name() == h.Name {
			h.Do()
		}
		return next(ctx, cmds)
	}
}
