package redisratelimit

import (
	"context"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

func init() {
	redis.SetLogger(redisLog{})
}

// redisLog passes what go-redis would write to stderr to Caddy's log, as detail: outages are
// logged by this module itself.
type redisLog struct{}

// Printf implements go-redis's logger.
func (redisLog) Printf(_ context.Context, format string, values ...any) {
	if c := caddy.Log().Named(appName+".client").Check(zap.DebugLevel, "go-redis"); c != nil {
		c.Write(zap.String("says", fmt.Sprintf(format, values...)))
	}
}
