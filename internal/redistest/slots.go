package redistest

import (
	"context"
	"net"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// MoveSlot moves a slot with all its keys from a master to another, as redis-cli does. The masters are three.
func MoveSlot(t testing.TB, masters []*Server, slot uint16, from, to int) {
	t.Helper()
	ctx := context.Background()
	do := func(s *Server, words ...any) {
		assert.Must(t, s.Client(t).Do(ctx, words...).Err())
	}
	source, target := masters[from], masters[to]
	source.AwaitEpoch(t, target)
	do(target, "cluster", "setslot", slot, "importing", source.ClusterID(t))
	do(source, "cluster", "setslot", slot, "migrating", target.ClusterID(t))
	host, port, err := net.SplitHostPort(target.Addr)
	assert.Must(t, err)
	for {
		keys := source.Client(t).ClusterGetKeysInSlot(ctx, int(slot), 100).Val()
		if len(keys) == 0 {
			break
		}
		words := []any{"migrate", host, port, "", 0, 5000, "keys"}
		for _, key := range keys {
			words = append(words, key)
		}
		do(source, words...)
	}
	for _, m := range []*Server{target, source, masters[len(masters)-from-to]} {
		do(m, "cluster", "setslot", slot, "node", target.ClusterID(t))
	}
}

// StartMove begins to move a slot between masters, with some of its keys, and does not end.
func StartMove(t testing.TB, source, target *Server, slot uint16, names ...string) {
	t.Helper()
	ctx := context.Background()
	host, port, err := net.SplitHostPort(target.Addr)
	assert.Must(t, err)
	assert.Must(t, target.Client(t).Do(ctx, "cluster", "setslot", slot, "importing", source.ClusterID(t)).Err())
	assert.Must(t, source.Client(t).Do(ctx, "cluster", "setslot", slot, "migrating", target.ClusterID(t)).Err())
	for _, name := range names {
		moved, err := source.Client(t).Do(ctx, "migrate", host, port, name, 0, 5000).Text()
		assert.FatalIf(t, err != nil || moved != "OK", "%s: %s, %v", name, moved, err)
	}
}
