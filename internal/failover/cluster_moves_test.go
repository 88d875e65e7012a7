package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redis"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// TestCluster_administration_moves lists and lifts bans, and resets quotas, while slots move and after that.
func TestCluster_administration_moves(t *testing.T) {
	t.Parallel()
	ctx, masters := context.Background(), redistest.StartCluster(t)
	f := newClusterFailover(t, masters)
	r, p := f.shared, storetest.HourBan(t, "moves", 1)
	placeOf := func(key string) (slot uint16, from, to int) {
		slot = r.SlotOf(limiter.EncodeKey(key))
		from = int(slot) * len(masters) / redis.ClusterSlots
		return slot, from, (from + 1) % len(masters)
	}
	begin := func(key string, names ...string) {
		t.Helper()
		slot, from, to := placeOf(key)
		redistest.StartMove(t, masters[from], masters[to], slot, names...)
	}
	for _, key := range []string{"moved", "moving", "halved", "b", "c", "d"} {
		ask(t, f, p, key, 3)
	}

	slot, from, to := placeOf("moved")
	redistest.MoveSlot(t, masters, slot, from, to)
	banned, err := f.Unban(ctx, p, limiter.EncodeKey("moved"))
	assert.ErrorIf(t, err != nil || !banned, "the slot has moved: %v, %v", banned, err)

	moving, halved := limiter.EncodeKey("moving"), limiter.EncodeKey("halved")
	begin("moving", r.RedisKey(p, moving), r.BanKey(p, moving))
	begin("halved", r.BanKey(p, halved))
	if list, complete, err := f.Banned(ctx, p.Name()); err != nil || !complete || len(list) != 5 {
		t.Errorf("slots move: %v are listed, complete: %v, %v", list, complete, err)
	}
	found, err := f.Reset(ctx, p, halved)
	assert.ErrorIf(t, err != nil || found.Shared != 1, "half of the keys have moved: %+v, %v", found, err)
	banned, err = f.Unban(ctx, p, moving)
	assert.ErrorIf(t, err != nil || !banned, "the slot moves: %v, %v", banned, err)
	begin("b", r.BanKey(p, limiter.EncodeKey("b")))
	if banned, err := f.UnbanAll(ctx, p.Name()); err != nil || banned != 3 {
		t.Errorf("slots move: %d bans are lifted, %v", banned, err)
	}
	if found, err := f.ResetAll(ctx, p.Name()); err != nil || found.Shared != 5 { // moved, moving, b, c, d
		t.Errorf("slots move: %+v are reset, %v", found, err)
	}
}

// TestCluster_administration_uncovered has slots that no master serves: nothing is known of their clients.
func TestCluster_administration_uncovered(t *testing.T) {
	t.Parallel()
	ctx, masters := context.Background(), redistest.StartCluster(t)
	f := newClusterFailover(t, masters)
	p := storetest.HourBan(t, "uncovered", 1)
	ask(t, f, p, "k", 3)
	lost := int(f.shared.SlotOf(limiter.EncodeKey("k"))) * len(masters) / redis.ClusterSlots
	first, last := redis.ClusterSlots*lost/len(masters), redis.ClusterSlots*(lost+1)/len(masters)-1
	var clients []*goredis.Client
	for _, m := range masters {
		clients = append(clients, m.Client(t))
	}
	assert.WaitFor(t, "no command takes the list for complete", func() error {
		for _, client := range clients { // all slots of one, which has the keys still; what it said before may bring them back
			if err := client.ClusterDelSlotsRange(ctx, first, last).Err(); err != nil && !strings.Contains(err.Error(), "already unassigned") {
				return err
			}
		}
		_, complete, listed := f.Banned(ctx, p.Name())
		_, lifted := f.UnbanAll(ctx, p.Name())
		_, reset := f.ResetAll(ctx, p.Name())
		for _, err := range []error{listed, lifted, reset} {
			if complete || err == nil || !strings.Contains(err.Error(), "slots have no master") {
				return fmt.Errorf("complete: %v, %w", complete, errors.Join(listed, lifted, reset))
			}
		}
		return nil
	})
}
