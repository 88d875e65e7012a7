package redistest

import (
	"context"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// Busy has a server run a script without end, and waits until others are answered BUSY. The end of the test kills the
// script.
func Busy(t testing.TB, s *Server) {
	t.Helper()
	admin, ctx := s.Client(t), context.Background() // that of the test has ended when the script is killed
	assert.Must(t, admin.ConfigSet(ctx, "lua-time-limit", "1").Err())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = admin.Eval(ctx, "while true do end", nil).Err() // SCRIPT KILL ends it
	}()
	t.Cleanup(func() {
		assert.WaitFor(t, "the script is killed", func() error { return admin.ScriptKill(ctx).Err() })
		<-ended
	})
	assert.Retry(t, "the script runs", func() (again bool, seen any) {
		return !goredis.HasErrorPrefix(admin.Ping(ctx).Err(), "BUSY"), "it does not"
	})
}
