package dial

import (
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestNew_lasting uses what holds on to a connection, as a user who has to log in, before and after all others were
// replaced, and commands and pipelines beside it.
func TestNew_lasting(t *testing.T) {
	t.Parallel()
	server, ctx := redistest.Start(t), t.Context()
	assert.Must(t, server.Client(t).Do(ctx, "acl", "setuser", "app", "on", ">secret", "~*", "&*", "+@all").Err())
	made := assert.NoError(New(Connection{Addresses: []string{server.Addr}, Username: "app", Password: "secret", DB: 3, Timeout: time.Minute}))(t)
	client, ok := made.(*renewedClient)
	assert.FatalIf(t, !ok, "the client is a %T", made)
	var hooked counter
	client.AddHook(&hooked)
	subscription := client.Subscribe(ctx, "channel")
	t.Cleanup(func() { _ = subscription.Close() })
	for round := range 2 {
		_, err := subscription.Receive(ctx)
		assert.Must(t, err)
		assert.Must(t, client.Set(ctx, "k", round, 0).Err())
		queued, err := client.TxPipelined(ctx, func(p goredis.Pipeliner) error { return p.Incr(ctx, "k").Err() })
		if err != nil || len(queued) != 1 || queued[0].(*goredis.IntCmd).Val() != int64(round+1) { //nolint:errcheck // it panics
			t.Errorf("a transaction returns %v, %v", queued, err)
		}
		assert.Must(t, client.Watch(ctx, func(tx *goredis.Tx) error { return tx.Get(ctx, "k").Err() }, "k"))
		piped, err := client.Pipelined(ctx, func(p goredis.Pipeliner) error { return p.Incr(ctx, "k").Err() })
		assert.ErrorIf(t, err != nil || piped[0].(*goredis.IntCmd).Val() != int64(round+2), "a pipeline returns %v, %v", piped, err) //nolint:errcheck // it panics
		info := assert.NoError(client.Conn().ClientInfo(ctx).Result())(t)
		assert.ErrorIf(t, info.User != "app" || info.DB != 3, "a connection is of %s in %d", info.User, info.DB)
		renewed, err := client.Renew(ctx, func(*goredis.Client) error { return nil })
		assert.ErrorIf(t, err != nil || !renewed, "renewed %v, %v", renewed, err)
		before := hooked.commands
		assert.Must(t, client.Ping(ctx).Err())
		assert.ErrorIf(t, hooked.commands != before+1, "%d commands pass the hook in place of one", hooked.commands-before)
		assert.Must(t, client.Publish(ctx, "channel", "message").Err())
	}
	assert.Must(t, client.Close())
	assert.ErrorIf(t, client.Ping(ctx).Err() == nil || client.Close() == nil, "a closed client answers")
	_, err := client.Pipelined(ctx, func(p goredis.Pipeliner) error { return p.Ping(ctx).Err() })
	assert.ErrorIf(t, err == nil, "a pipeline of a closed client succeeds")
}

// counter counts commands that are sent alone.
type counter struct{ commands int }

func (*counter) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (c *counter) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, command goredis.Cmder) error {
		c.commands++
		return next(ctx, command)
	}
}

func (*counter) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func TestNewClient_idle_connections(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Standalone, Sentinel, Cluster} {
		o := Connection{Mode: mode, Addresses: []string{"127.0.0.1:1"}, Timeout: time.Second}
		if mode == Sentinel {
			o.Master = "main"
		}
		client, err := New(o)
		assert.Must(t, err)
		t.Cleanup(func() { _ = client.Close() })
		var idle time.Duration
		switch client := client.(type) {
		case *goredis.ClusterClient:
			idle = client.Options().ConnMaxIdleTime
		case interface{ Options() *goredis.Options }:
			idle = client.Options().ConnMaxIdleTime
		}
		assert.ErrorIf(t, idle >= 0, "%s: closed after %v", mode, idle)
	}
}
